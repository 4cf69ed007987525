// A table of broken data files. The message must name the file and the position, what was expected
// and what was found.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>

#include "runtime/data/array.h"
#include "runtime/data/csv.h"
#include "runtime/data/formats.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using test::counting;
using test::idx;
using test::npy;
using test::npy_header;
using test::raw;

enum class Format { kIdx, kIdxLabels, kNpy, kNpyLabels, kNpyFloats, kCsv, kCsvRegression };

struct Broken {
  const char* name;
  Format format;
  std::string content;
  std::vector<std::string> fragments;  // parts that the message must contain
};

void load(Format format, const std::string& text) {
  const CsvOptions csv{.features = {}, .target = "-1", .classification = format == Format::kCsv};
  switch (format) {
    case Format::kIdx:
      parse_idx(text.data(), text.size(), "data.file");
      return;
    case Format::kIdxLabels:
      to_labels(parse_idx(text.data(), text.size(), "data.file"), 10);
      return;
    case Format::kNpy:
      parse_npy(text.data(), text.size(), "data.file");
      return;
    case Format::kNpyLabels:
      to_labels(parse_npy(text.data(), text.size(), "data.file"), 0);
      return;
    case Format::kNpyFloats:
      to_floats(parse_npy(text.data(), text.size(), "data.file"));
      return;
    case Format::kCsv:
    case Format::kCsvRegression:
      parse_csv(text, "data.file", csv);
      return;
  }
}

std::string changed(std::string text, std::size_t at, char value) {
  text[at] = value;
  return text;
}

std::vector<Broken> broken_idx() {
  const std::string images = idx(0x08, {2, 2, 2}, counting(8));
  const std::string zipped = test::gzip(images);
  const std::string bomb = idx(0x08, {0xffffffff}, "");
  const auto kIdx = Format::kIdx;
  return {
      {"IdxEmpty", kIdx, "", {"at byte 0", "magic", "expected 4 bytes", "found 0"}},
      {"IdxCutInHeader", kIdx, images.substr(0, 10), {"at byte 10", "dimensions"}},
      {"IdxCut", kIdx, images.substr(0, 20), {"at byte 16", "2x2x2", "8 bytes", "more than 4"}},
      {"IdxTrailing", kIdx, images + "x", {"at byte 24", "trailing"}},
      {"IdxWrongMagic", kIdx, "PNG!" + images, {"at byte 0", "50 4e 47 21", "00 00"}},
      {"IdxWrongType", kIdx, changed(images, 2, 0x0a), {"at byte 2", "0a", "08, 09"}},
      {"IdxRankZero", kIdx, changed(images, 3, 0), {"at byte 3", "0 dimensions", "1..8"}},
      {"IdxRankTooHigh", kIdx, changed(images, 3, 9), {"9 dimensions"}},
      {"IdxAbsurd", kIdx, idx(0x08, {0xffffffff, 2}, "x"), {"4294967295x2", "8589934590"}},
      {"IdxOverflow",
       kIdx,
       idx(0x0e, {0xffffffff, 0xffffffff, 0xffffffff}, "x"),
       {"more bytes than can be counted"}},
      {"IdxOverflowBeforeZero",
       kIdx,
       idx(0x08, {0xffffffff, 0xffffffff, 0}, ""),
       {"more bytes than can be counted"}},
      {"GzipCut", kIdx, zipped.substr(0, zipped.size() - 9), {"data.file", "too early", "cut"}},
      {"GzipCutInChecksum", kIdx, zipped.substr(0, zipped.size() - 2), {"too early"}},
      {"GzipWrongChecksum",
       kIdx,
       changed(zipped, zipped.size() - 8, static_cast<char>(zipped[zipped.size() - 8] ^ 1)),
       {"bad gzip data", "incorrect data check"}},
      {"GzipWrongLength",
       kIdx,
       changed(zipped, zipped.size() - 4, static_cast<char>(zipped[zipped.size() - 4] ^ 1)),
       {"incorrect length check"}},
      {"GzipBadHeader", kIdx, changed(zipped, 2, 0), {"unknown compression method"}},
      {"GzipGarbageBehind", kIdx, zipped + "garbage", {"bad gzip data", "incorrect header"}},
      {"GzipLongerThanSaid", kIdx, test::gzip(images + "x"), {"(decompressed)", "trailing"}},
      {"GzipShorterThanSaid",
       kIdx,
       test::gzip(images.substr(0, 20)),
       {"(decompressed)", "expected 8 bytes", "found 4"}},
      {"GzipAbsurd", kIdx, test::gzip(bomb), {"4294967295", "no more than"}},
      {"IdxLabelOutOfRange",
       Format::kIdxLabels,
       idx(0x08, {3}, "\x01\x09\x0a"),
       {"at byte 10", "sample 2 is 10", "0..9"}},
      {"IdxLabelNegative", Format::kIdxLabels, idx(0x09, {1}, "\xff"), {"is -1", "0..9"}},
      {"IdxLabelShape", Format::kIdxLabels, idx(0x08, {1, 2}, "xx"), {"1x2", "one label"}},
      {"IdxLabelFloat", Format::kIdxLabels, idx(0x0d, {0}, ""), {"float32", "regression"}},
  };
}

std::vector<Broken> broken_npy() {
  const std::string floats = npy(npy_header("<f4", "(2,)"), raw<float>({1, 2}));
  const auto header = [](const std::string& text) { return npy(text, "1234"); };
  const auto kNpy = Format::kNpy;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  return {
      {"NpyEmpty", kNpy, "", {"at byte 0", "magic"}},
      {"NpyMagic", kNpy, changed(floats, 1, 'X'), {"at byte 0", "93 NUMPY"}},
      {"NpyVersion", kNpy, changed(floats, 6, 3), {"at byte 6", "version 3", "1 or 2"}},
      {"NpyCutHeader", kNpy, floats.substr(0, 30), {"at byte 30", "NPY header"}},
      {"NpyHugeHeader",
       kNpy,
       std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12),
       {"4294967295 bytes", "at most 65536"}},
      {"NpyCut", kNpy, floats.substr(0, floats.size() - 1), {"8 bytes", "more than 7"}},
      {"NpyTrailing", kNpy, floats + "x", {"trailing"}},
      {"NpyFortran",
       kNpy,
       header("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }"),
       {"Fortran order", "ascontiguousarray"}},
      {"NpyBigEndian", kNpy, header(npy_header(">f4", "(1,)")), {"'>f4'", "little-endian"}},
      {"NpyComplex", kNpy, header(npy_header("<c8", "(1,)")), {"'<c8'"}},
      {"NpyObject", kNpy, header(npy_header("|O", "(1,)")), {"'|O'"}},
      {"NpyStructured",
       kNpy,
       header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}"),
       {"structured"}},
      {"NpyShapeOverflow",
       kNpy,
       header(npy_header("<f4", "(4611686018427387904, 4611686018427387904)")),
       {"more bytes than can be counted"}},
      {"NpyShapeAbsurd",
       kNpy,
       header(npy_header("<f4", "(1000000000,)")),
       {"1000000000", "4000000000 bytes", "no more than 4"}},
      {"NpyShapeNegative", kNpy, header(npy_header("<f4", "(-1,)")), {"dimension"}},
      {"NpyShapeTooLarge",
       kNpy,
       header(npy_header("<f4", "(99999999999999999999,)")),
       {"dimension"}},
      {"NpyRankTooHigh", kNpy, header(npy_header("<f4", "(1,1,1,1,1,1,1,1,1)")), {"at most 8"}},
      {"NpyMissingKey", kNpy, header("{'descr': '<f4', 'shape': (1,)}"), {"key is missing"}},
      {"NpyKeyTwice", kNpy, header("{'descr': '<f4', 'descr': '<f4'}"), {"twice"}},
      {"NpyUnknownKey", kNpy, header("{'type': '<f4'}"), {"unknown key 'type'"}},
      {"NpyOpenQuote", kNpy, header("{'descr: "), {"closing quote"}},
      {"NpyTextBehind", kNpy, header(npy_header("<f4", "(1,)") + "x"), {"behind"}},
      {"NpyNan",
       Format::kNpyFloats,
       npy(npy_header("<f4", "(2,)"), raw<float>({1, nan})),
       {"element 1", "nan", "finite"}},
      {"NpyTooLargeForFloat",
       Format::kNpyFloats,
       npy(npy_header("<f8", "(1,)"), raw<double>({1e300})),
       {"element 0", "float32"}},
      {"NpyLabelAbsurd",
       Format::kNpyLabels,
       npy(npy_header("<i8", "(1,)"), raw<int64_t>({2000000})),
       {"2000000", "0..1048575"}},
  };
}

std::vector<Broken> broken_csv() {
  const auto kCsv = Format::kCsv;
  return {
      {"CsvEmpty", kCsv, "", {"data.file", "empty"}},
      {"CsvBlank", kCsv, "\n \n\r\n", {"empty"}},
      {"CsvOnlyHeader", kCsv, "a,b\n", {"no line behind the header"}},
      {"CsvOneColumn", kCsv, "1\n2\n", {"no column is left"}},
      {"CsvNotNumeric", kCsv, "a,b\n1,x\nfoo,x\n", {"line 3, column 1", "\"foo\""}},
      {"CsvNumberWithRest", kCsv, "a,b\n1.5kg,x\n", {"line 2, column 1", "1.5kg"}},
      {"CsvEmptyField", kCsv, "1,2,x\n1,,x\n", {"line 2, column 2", "empty"}},
      {"CsvShortLine", kCsv, "1,2,x\n1,x\n", {"line 2", "2 fields", "expected 3"}},
      {"CsvLongLine", kCsv, "1,2,x\n1,2,3,x\n", {"line 2", "4 fields", "expected 3"}},
      {"CsvNan", kCsv, "1,x\nNaN,x\n", {"line 2, column 1", "NaN", "finite"}},
      {"CsvInfinity", kCsv, "1,x\n-inf,x\n", {"line 2, column 1", "-inf"}},
      {"CsvTooLarge", kCsv, "1,x\n1e39,x\n", {"1e39", "float32"}},
      {"CsvOpenQuote", kCsv, "1,x\n2,\"x\n", {"line 2, column 2", "closing quote"}},
      {"CsvTextBehindQuote", kCsv, "1,\"x\"y\n", {"line 1, column 2", "closing quote"}},
      {"CsvEmptyLabel", kCsv, "1,x\n2,\n", {"line 2, column 2", "label is empty"}},
      {"CsvNegativeLabel", kCsv, "1,0\n2,-1\n", {"line 2, column 2", "-1", "0..1048575"}},
      {"CsvAbsurdLabel", kCsv, "1,0\n2,9999999\n", {"9999999"}},
      {"CsvFractionsAsLabels", kCsv, "1,0.5\n2,1.5\n", {"0.5", "regression"}},
      {"CsvRegressionText", Format::kCsvRegression, "1,2\n1,x\n", {"line 2, column 2", "\"x\""}},
      {"CsvLineCountsQuotedLines", kCsv, "1,\"x\ny\"\nz,x\n", {"line 3, column 1"}},
  };
}

class BrokenFile : public testing::TestWithParam<Broken> {};
const auto kName = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Idx, BrokenFile, testing::ValuesIn(broken_idx()), kName);
INSTANTIATE_TEST_SUITE_P(Npy, BrokenFile, testing::ValuesIn(broken_npy()), kName);
INSTANTIATE_TEST_SUITE_P(Csv, BrokenFile, testing::ValuesIn(broken_csv()), kName);

TEST_P(BrokenFile, IsRefusedWithAReason) {
  const std::string message = test::message_of([] { load(GetParam().format, GetParam().content); });
  EXPECT_THAT(message, testing::StartsWith("data.file"));
  for (const std::string& fragment : GetParam().fragments) {
    EXPECT_THAT(message, testing::HasSubstr(fragment));
  }
}

TEST(UnreadableFile, IsNamedWithTheReason) {
  const test::TempFolder folder;
  const auto message = [](const std::string& path) {
    return test::message_of([&] { read_idx(path); });
  };
  EXPECT_THAT(message(folder.path("no")), testing::HasSubstr(folder.path("no") + ": No such file"));
  EXPECT_THAT(message(folder.path()), testing::HasSubstr("it is a folder"));
  EXPECT_THAT(message("/dev/null"), testing::HasSubstr("regular file"));
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(message(pipe), testing::HasSubstr("pipe"));
  const std::string secret = folder.write("secret", "x");
  ASSERT_EQ(chmod(secret.c_str(), 0), 0);
  if (access(secret.c_str(), R_OK) == 0) return;  // root can read every file
  EXPECT_THAT(message(secret), testing::HasSubstr("Permission denied"));
}

TEST(BrokenCifar10, IsRefusedWithAReason) {
  const test::TempFolder folder;
  const auto message = [&] {
    return test::message_of([&] { load_cifar10(folder.path(), false); });
  };
  EXPECT_THAT(message(), testing::HasSubstr("data_batch_1.bin: No such file"));
  for (int i = 1; i <= 5; ++i) {
    folder.write("data_batch_" + std::to_string(i) + ".bin", test::cifar_record(1, 2));
  }
  folder.write("data_batch_2.bin", test::cifar_record(1, 2) + test::cifar_record(10, 2));
  EXPECT_THAT(message(), testing::AllOf(testing::HasSubstr("data_batch_2.bin: at byte 3073"),
                                        testing::HasSubstr("label 10; expected 0..9")));
  folder.write("data_batch_2.bin", test::cifar_record(1, 2) + "x");
  EXPECT_THAT(message(), testing::AllOf(testing::HasSubstr("3074 bytes"),
                                        testing::HasSubstr("multiple of 3073")));
  folder.write("data_batch_2.bin", "");
  EXPECT_THAT(message(), testing::HasSubstr("0 bytes"));
}

}  // namespace
}  // namespace runtime::data
