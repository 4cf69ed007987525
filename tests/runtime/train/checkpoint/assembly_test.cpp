// Checks that tensors are put together from any slices, and refused where shapes differ.
#include "runtime/train/checkpoint/assembly.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "runtime/data/source.h"
#include "runtime/error.h"
#include "tests/runtime/support/devices.h"

namespace runtime::train {
namespace {

using testing::HasSubstr;

data::HostTensor tensor(const std::vector<float>& numbers, graph::Dims dims) {
  data::HostTensor t{RT_FLOAT32, std::move(dims), std::vector<std::byte>(numbers.size() * 4)};
  std::memcpy(t.bytes.data(), numbers.data(), t.bytes.size());
  return t;
}

// A file with elements `begin` to `end` - 1 of the tensor "momentum/w" [4, 3], which counts from 0.
data::TensorFile part(int64_t begin, int64_t end) {
  Slice slice = whole_slice({4, 3});
  slice.begin = begin;
  slice.end = end;
  std::vector<float> numbers;
  for (int64_t i = begin; i < end; ++i) numbers.push_back(static_cast<float>(i));
  data::TensorFile file;
  file.tensors["momentum/w"] =
      tensor(numbers, slice.is_whole() ? slice.dims : graph::Dims{end - begin});
  describe_slice(file.metadata, "momentum/w", slice);
  return file;
}

Assembly whole(rt_dtype dtype = RT_FLOAT32) {
  return Assembly({{"momentum/w", dtype, whole_slice({4, 3})}});
}

std::string fault_of(const Assembly& assembly) {
  const std::string missing = assembly.missing();
  return missing.empty() ? "complete" : missing;
}

TEST(Assembly, PartsMayOverlapAndComeInAnyOrder) {
  Assembly a = whole();
  EXPECT_THAT(fault_of(a), HasSubstr("lacks tensor 'momentum/w'"));
  a.add(part(7, 12), "c");
  a.add(part(0, 4), "a");
  EXPECT_THAT(fault_of(a), HasSubstr("lacks a part of tensor"));
  a.add(part(2, 6), "b");
  EXPECT_THAT(fault_of(a), HasSubstr("lacks a part of tensor"));
  a.add(part(6, 7), "d");
  EXPECT_EQ(fault_of(a), "complete");
  float numbers[12];
  std::memcpy(numbers, a.bytes(0).data(), sizeof(numbers));
  for (int i = 0; i < 12; ++i) EXPECT_EQ(numbers[i], static_cast<float>(i));
}

TEST(Assembly, TypesAreConverted) {
  Assembly a = whole(RT_FLOAT64);
  a.add(part(0, 12), "a");
  double numbers[12];
  std::memcpy(numbers, a.bytes(0).data(), sizeof(numbers));
  EXPECT_EQ(numbers[11], 11);
}

// Adds a file by its header, so that only what is wanted is read.
void add_from_disk(Assembly& assembly, const std::string& path) {
  const auto source = data::open_file(path);
  assembly.add(path, data::read_tensor_header(*source));
}

TEST(Assembly, ReadsFromFilesWhatItWants) {
  const test::TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  data::write_safetensors(path("a"), part(0, 7));
  data::write_safetensors(path("b"), part(5, 12));
  for (const rt_dtype dtype : {RT_FLOAT32, RT_FLOAT64}) {
    Slice column = whole_slice({4, 3});
    column.split = {.axis = 1, .blocks = 1, .whole = 3, .unit = 1, .begin = 1, .length = 2};
    column.end = 8;
    Assembly a({{"momentum/w", dtype, column}});
    add_from_disk(a, path("b"));
    EXPECT_THAT(fault_of(a), HasSubstr("lacks a part of tensor"));
    add_from_disk(a, path("a"));
    EXPECT_EQ(fault_of(a), "complete");
    std::vector<double> numbers(8);
    if (dtype == RT_FLOAT64) {
      std::memcpy(numbers.data(), a.bytes(0).data(), 64);
    } else {
      float narrow[8];
      std::memcpy(narrow, a.bytes(0).data(), sizeof(narrow));
      std::copy_n(narrow, 8, numbers.begin());
    }
    EXPECT_THAT(numbers, testing::ElementsAre(1, 2, 4, 5, 7, 8, 10, 11));
  }
}

TEST(Assembly, AFileThatIsCutAfterItsHeaderWasReadIsAnError) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "a").string();
  data::write_safetensors(path, part(0, 12));
  const data::TensorHeader header = data::read_tensor_header(*data::open_file(path));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  Assembly a = whole();
  try {
    a.add(path, header);
    ADD_FAILURE();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr(path), HasSubstr("was cut while")));
  }
}

TEST(Assembly, WhatAnotherRankSendsIsNotReadAndNotMissed) {
  Assembly a({{"momentum/w", RT_FLOAT32, whole_slice({4, 3}), true}});
  EXPECT_EQ(fault_of(a), "complete");
  a.add(part(0, 12), "a");
  EXPECT_EQ(a.bytes(0), std::vector<std::byte>(48));
}

TEST(Assembly, OtherShapesAreRefused) {
  data::TensorFile file;
  file.tensors["momentum/w"] = tensor(std::vector<float>(12), {3, 4});
  try {
    whole().add(file, "rank-0.safetensors");
    ADD_FAILURE();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank-0.safetensors: tensor 'momentum/w' belongs to a "
                                        "tensor of shape [3, 4]; this model has [4, 3]"));
  }
  file.tensors["momentum/w"] = tensor(std::vector<float>(5), {5});
  describe_slice(file.metadata, "momentum/w", {{4, 3}, {}, 0, 6});
  EXPECT_THROW(whole().add(file, "x"), DataError);
}

TEST(Assembly, StatisticsAreThoseOfOneRank) {
  data::TensorFile file;
  file.tensors["statistics/m"] = tensor({1, 2}, {2});
  Assembly a({{"statistics/m", RT_FLOAT32, whole_slice({2})}});
  a.add(file, "x", false);
  EXPECT_THAT(fault_of(a), HasSubstr("lacks"));
  a.add(file, "x", true);
  EXPECT_EQ(fault_of(a), "complete");
}

}  // namespace
}  // namespace runtime::train
