// Checks that tensors come back, alignment, and that writing replaces files as a whole.
#include "runtime/data/safetensors.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "runtime/data/crc32.h"
#include "runtime/data/tensor_stream.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

HostTensor tensor(rt_dtype dtype, std::vector<int64_t> dims, std::size_t bytes, int fill = 1) {
  return {dtype, std::move(dims), std::vector<std::byte>(bytes, static_cast<std::byte>(fill))};
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_equal(const TensorFile& a, const TensorFile& b) {
  EXPECT_EQ(a.metadata, b.metadata);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, expected] : a.tensors) {
    ASSERT_TRUE(b.tensors.contains(name)) << name;
    const HostTensor& actual = b.tensors.at(name);
    EXPECT_EQ(actual.dtype, expected.dtype) << name;
    EXPECT_EQ(actual.dims, expected.dims) << name;
    EXPECT_EQ(actual.bytes, expected.bytes) << name;
  }
}

TensorFile example_file() {
  TensorFile file;
  file.tensors["a.f64"] = tensor(RT_FLOAT64, {3}, 24, 2);
  file.tensors["b.u8"] = tensor(RT_UINT8, {5}, 5, 3);
  file.tensors["c.f32"] = tensor(RT_FLOAT32, {2, 2}, 16, 4);
  file.tensors["d.f16"] = tensor(RT_FLOAT16, {3}, 6, 5);
  file.tensors["e.bf16"] = tensor(RT_BFLOAT16, {1}, 2, 6);
  file.tensors["f.i64"] = tensor(RT_INT64, {1, 1}, 8, 7);
  file.tensors["g.i32"] = tensor(RT_INT32, {1}, 4, 8);
  file.tensors["h.i8"] = tensor(RT_INT8, {3}, 3, 9);
  file.tensors["scalar"] = tensor(RT_FLOAT32, {}, 4, 10);
  file.tensors["empty"] = tensor(RT_FLOAT32, {4, 0}, 0);
  file.metadata = {{"format", "pt"}, {"quote", "\"\\\n\u00e4"}};
  return file;
}

TEST(Safetensors, WritesWhatItReads) {
  const test::TempFolder folder;
  const std::string path = folder.path("a.safetensors");
  write_safetensors(path, example_file());
  expect_equal(example_file(), read_safetensors(path));
  EXPECT_EQ(safetensors_text(example_file(), "memory"), content_of(path));
}

TEST(Safetensors, AStreamGivesEachTensorOnce) {
  const test::TempFolder folder;
  const std::string path = folder.path("a.safetensors");
  write_safetensors(path, example_file());
  TensorStream stream(path);
  TensorFile read;
  read.metadata = stream.header().metadata;
  stream.read([&](const std::string& name, HostTensor tensor) {
    EXPECT_EQ(stream.header().tensors.at(name).dims, tensor.dims);
    EXPECT_TRUE(read.tensors.emplace(name, std::move(tensor)).second) << name;
  });
  expect_equal(example_file(), read);
}

TEST(Safetensors, SaysWhatItHasWritten) {
  const test::TempFolder folder;
  const std::string path = folder.path("a.safetensors");
  TensorFile large;  // above the size from which a file bypasses the page cache
  large.tensors["a"] = tensor(RT_UINT8, {70'000'001}, 70'000'001, 17);
  large.tensors["b"] = tensor(RT_FLOAT32, {3}, 12, 5);
  for (const TensorFile& file : {example_file(), TensorFile{}, large}) {
    const WrittenFile written = write_safetensors(path, file);
    const std::string content = content_of(path);
    EXPECT_EQ(written.bytes, content.size());
    EXPECT_EQ(written.crc32, crc32(content.data(), content.size()));
    expect_equal(file, read_safetensors(path));
  }
}

// The data of a large file begin at a page, and tensors that lie in memory as they do in the file
// are written from there.
TEST(Safetensors, TensorsThatLieAsInTheFileAreWrittenFromThere) {
  const test::TempFolder folder;
  TensorFile file;
  file.tensors["b"] = tensor(RT_UINT8, {70'000'001}, 70'000'001, 17);
  file.tensors["c"] = tensor(RT_FLOAT64, {1001}, 8008, 3);
  file.tensors["a"] = tensor(RT_UINT8, {5000}, 5000, 5);
  FileView view(file);
  std::vector<std::byte> memory(70'013'009);
  place_tensors(view, memory.data());
  EXPECT_EQ(view.tensors.at("c").data, memory.data());  // the wide type
  for (const auto& [name, t] : view.tensors)
    std::copy_n(file.tensors.at(name).bytes.data(), t.bytes,
                memory.data() + (t.data - memory.data()));
  write_safetensors(folder.path("placed"), view);
  write_safetensors(folder.path("owned"), file);
  expect_equal(file, read_safetensors(folder.path("placed")));
  const std::string content = content_of(folder.path("placed"));
  EXPECT_TRUE(content == content_of(folder.path("owned")));
  for (const int threads : {2, 3, 7}) {
    write_safetensors(folder.path("shared"), view, nullptr, threads);
    EXPECT_TRUE(content == content_of(folder.path("shared"))) << threads;
  }
  uint64_t header = 0;
  std::memcpy(&header, content.data(), sizeof header);
  EXPECT_EQ((8 + header) % 4096, 0u);
}

TEST(Safetensors, EachBlockIsInspectedOnceBeforeThereIsAFile) {
  const test::TempFolder folder;
  TensorFile file;
  file.tensors["a"] = tensor(RT_UINT8, {1'000'003}, 1'000'003, 17);
  file.tensors["b"] = tensor(RT_FLOAT32, {3}, 12, 5);
  std::map<std::string, std::vector<std::byte>> seen;
  write_safetensors(folder.path("a"), file,
                    [&](const std::string& name, rt_dtype, const std::byte* block, uint64_t bytes) {
                      seen[name].insert(seen[name].end(), block, block + bytes);
                    });
  for (const auto& [name, bytes] : seen) EXPECT_TRUE(bytes == file.tensors.at(name).bytes) << name;
  EXPECT_EQ(seen.size(), 2u);
  file.tensors["a"] = tensor(RT_UINT8, {70'000'000}, 70'000'000);  // several threads inspect it
  EXPECT_THROW(write_safetensors(
                   folder.path("b"), file,
                   [](const std::string& name, rt_dtype, const std::byte*, uint64_t) {
                     if (name == "b") throw NumericError(name);
                   },
                   3),
               NumericError);
  EXPECT_FALSE(std::filesystem::exists(folder.path("b")));
}

TEST(Safetensors, HeaderIsAlignedAndWideTypesComeFirst) {
  const test::TempFolder folder;
  const std::string path = folder.path("a.safetensors");
  write_safetensors(path, example_file());
  const std::string content = content_of(path);
  uint64_t header = 0;
  std::memcpy(&header, content.data(), sizeof header);
  EXPECT_EQ(header % 8, 0u);
  EXPECT_EQ(content[8], '{');
  EXPECT_EQ(static_cast<uint8_t>(content[8 + header]), 2);  // the first byte of the float64 tensor
}

TEST(Safetensors, EmptyFileOfTensors) {
  const test::TempFolder folder;
  write_safetensors(folder.path("a"), {});
  expect_equal({}, read_safetensors(folder.path("a")));
}

TEST(Safetensors, ReplacesAndLeavesNoOtherFile) {
  const test::TempFolder folder;
  const std::string path = folder.path("a.safetensors");
  write_safetensors(path, {});
  write_safetensors(path, example_file());
  expect_equal(example_file(), read_safetensors(path));
  const auto files = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(Safetensors, RefusedWriteKeepsTheOldFile) {
  const test::TempFolder folder;
  const std::string path = folder.path("a.safetensors");
  write_safetensors(path, example_file());
  TensorFile wrong;
  wrong.tensors["w"] = tensor(RT_FLOAT32, {2}, 7);
  EXPECT_THAT(test::message_of([&] { write_safetensors(path, wrong); }),
              testing::HasSubstr("tensor 'w' has 7 bytes; expected 8"));
  wrong.tensors["w"] = tensor(77, {2}, 8);
  EXPECT_THAT(test::message_of([&] { write_safetensors(path, wrong); }),
              testing::HasSubstr("type number 77"));
  wrong.tensors.clear();
  wrong.tensors["\xff"] = tensor(RT_FLOAT32, {1}, 4);
  EXPECT_THAT(test::message_of([&] { write_safetensors(path, wrong); }),
              testing::HasSubstr("not UTF-8"));
  wrong.tensors.clear();
  wrong.tensors["__metadata__"] = tensor(RT_FLOAT32, {1}, 4);
  EXPECT_THAT(test::message_of([&] { write_safetensors(path, wrong); }),
              testing::HasSubstr("__metadata__"));
  expect_equal(example_file(), read_safetensors(path));
}

TEST(Safetensors, MissingFolderIsNamed) {
  const test::TempFolder folder;
  EXPECT_THAT(test::message_of([&] { write_safetensors(folder.path("no/a"), {}); }),
              testing::AllOf(testing::HasSubstr("no/a"), testing::HasSubstr("create the folder")));
}

TEST(Safetensors, ThreadsMayWriteTheSameFile) {
  const test::TempFolder folder;
  const std::string path = folder.path("a.safetensors");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { write_safetensors(path, example_file()); });
  for (std::thread& thread : threads) thread.join();
  expect_equal(example_file(), read_safetensors(path));
}

TEST(Safetensors, ReadsAHandWrittenFile) {
  const std::string file = test::safetensors(
      R"({"flag":{"dtype":"BOOL","shape":[2],"data_offsets":[4,6]},)"
      R"("w":{"data_offsets":[0,4],"shape":[1,1],"dtype":"F32"},"__metadata__":{"k":"v"}}   )",
      std::string("\x00\x00\x80\x3f\x01\x00", 6));
  const TensorFile read =
      parse_safetensors(reinterpret_cast<const std::byte*>(file.data()), file.size(), "x");
  float one = 0;
  std::memcpy(&one, read.tensors.at("w").bytes.data(), sizeof one);
  EXPECT_EQ(one, 1.0f);
  EXPECT_EQ(read.tensors.at("flag").dtype, RT_UINT8);
  EXPECT_EQ(read.metadata.at("k"), "v");
}

}  // namespace
}  // namespace runtime::data
