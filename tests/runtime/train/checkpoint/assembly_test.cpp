// Checks that tensors are put together from any slices, and refused where shapes differ.
#include "runtime/train/checkpoint/assembly.h"

#include <gmock/gmock.h>

#include <cstring>

#include "runtime/error.h"

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
  try {
    assembly.check_complete();
    return "complete";
  } catch (const DataError& error) {
    return error.what();
  }
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
