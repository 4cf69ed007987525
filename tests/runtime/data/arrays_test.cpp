// Valid files of the array formats IDX, NPY and CIFAR-10. broken_files_test.cpp has the broken
// ones.
#include <gmock/gmock.h>

#include "runtime/data/array.h"
#include "runtime/data/formats.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using testing::ElementsAre;

Array parse_idx_text(const std::string& file) { return parse_idx(file.data(), file.size(), "x"); }
Array parse_npy_text(const std::string& file) { return parse_npy(file.data(), file.size(), "x"); }

TEST(Idx, BytesOfAnyRank) {
  for (const auto& dims :
       std::vector<std::vector<uint32_t>>{{6}, {2, 3}, {1, 2, 3}, {6, 1, 1, 1}}) {
    const Array array = parse_idx_text(test::idx(0x08, dims, test::counting(6)));
    EXPECT_EQ(array.type, ElementType::kUint8);
    EXPECT_EQ(array.dims, (std::vector<int64_t>(dims.begin(), dims.end())));
    EXPECT_EQ(array.elements(), 6);
    EXPECT_THAT(to_floats(array), ElementsAre(0, 1, 2, 3, 4, 5));
  }
}

TEST(Idx, OtherTypesAreBigEndian) {
  using namespace std::string_literals;
  EXPECT_THAT(to_floats(parse_idx_text(test::idx(0x09, {2}, "\xff\x02"))), ElementsAre(-1, 2));
  EXPECT_THAT(to_floats(parse_idx_text(test::idx(0x0B, {2}, "\xff\xfe\x01\x00"s))),
              ElementsAre(-2, 256));
  EXPECT_THAT(to_floats(parse_idx_text(test::idx(0x0C, {1}, "\x00\x01\x00\x00"s))),
              ElementsAre(65536));
  EXPECT_THAT(to_floats(parse_idx_text(test::idx(0x0D, {1}, "\x3f\x80\x00\x00"s))), ElementsAre(1));
  EXPECT_THAT(to_floats(parse_idx_text(test::idx(0x0E, {1}, "\xbf\xf0\0\0\0\0\0\0"s))),
              ElementsAre(-1));
}

TEST(Idx, GzipIsRecognisedByContent) {
  const test::TempFolder folder;
  const std::string file = test::idx(0x08, {300, 10}, test::counting(3000));
  const std::string zipped = test::gzip(file);
  EXPECT_EQ(to_floats(read_idx(folder.write("a", zipped))), to_floats(parse_idx_text(file)));
  EXPECT_EQ(to_floats(read_idx(folder.write("b.gz", file))), to_floats(parse_idx_text(file)));
}

TEST(Idx, GzipOfSeveralParts) {
  const std::string file = test::idx(0x08, {6}, test::counting(6));
  const std::string zipped = test::gzip(file.substr(0, 9)) + test::gzip(file.substr(9));
  EXPECT_THAT(to_floats(parse_idx_text(zipped)), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(Npy, AllTypes) {
  const auto load = [](const std::string& descr, const std::string& elements) {
    return to_floats(parse_npy_text(test::npy(test::npy_header(descr, "(2,)"), elements)));
  };
  EXPECT_THAT(load("<f4", test::raw<float>({1.5f, -2})), ElementsAre(1.5f, -2));
  EXPECT_THAT(load("<f8", test::raw<double>({1.5, -2})), ElementsAre(1.5f, -2));
  EXPECT_THAT(load("|u1", test::raw<uint8_t>({1, 255})), ElementsAre(1, 255));
  EXPECT_THAT(load("|i1", test::raw<int8_t>({1, -1})), ElementsAre(1, -1));
  EXPECT_THAT(load("<u2", test::raw<uint16_t>({1, 65535})), ElementsAre(1, 65535));
  EXPECT_THAT(load("<i2", test::raw<int16_t>({1, -300})), ElementsAre(1, -300));
  EXPECT_THAT(load("<u4", test::raw<uint32_t>({1, 70000})), ElementsAre(1, 70000));
  EXPECT_THAT(load("<i4", test::raw<int32_t>({1, -70000})), ElementsAre(1, -70000));
  EXPECT_THAT(load("<u8", test::raw<uint64_t>({1, 5})), ElementsAre(1, 5));
  EXPECT_THAT(load("<i8", test::raw<int64_t>({1, -5})), ElementsAre(1, -5));
}

TEST(Npy, Version2AndShapes) {
  const std::string header = test::npy_header("|u1", "(2, 3)");
  const std::string length = {static_cast<char>(header.size()), 0, 0, 0};
  const std::string file = std::string("\x93NUMPY\x02\x00", 8) + length + header;
  EXPECT_THAT(parse_npy_text(file + test::counting(6)).dims, ElementsAre(2, 3));
  const std::string scalar = test::npy(test::npy_header("|u1", "()"), "x");
  EXPECT_TRUE(parse_npy_text(scalar).dims.empty());
}

TEST(Cifar10, PlanesBecomeInterleavedPixels) {
  const test::TempFolder folder;
  for (int i = 1; i <= 5; ++i) {
    folder.write("data_batch_" + std::to_string(i) + ".bin",
                 test::cifar_record(static_cast<uint8_t>(i), static_cast<uint8_t>(10 * i)) +
                     test::cifar_record(0, 0));
  }
  folder.write("test_batch.bin", test::cifar_record(9, 7));
  const Parts parts = load_cifar10(folder.path(), true);
  EXPECT_EQ(parts.train.samples, 10);
  EXPECT_THAT(parts.train.shape, ElementsAre(32, 32, 3));
  EXPECT_THAT(parts.train.targets.labels, ElementsAre(1, 0, 2, 0, 3, 0, 4, 0, 5, 0));
  const uint8_t* third = parts.train.bytes.data.get() + 2 * 3072;
  EXPECT_THAT(std::vector<int>(third, third + 6), ElementsAre(20, 100, 200, 21, 100, 200));
  EXPECT_THAT(parts.validation->targets.labels, ElementsAre(9));
  EXPECT_FALSE(load_cifar10(folder.path(), false).validation.has_value());
}

}  // namespace
}  // namespace runtime::data
