// Checks what random slices have in common, and their text.
#include "runtime/train/checkpoint/slice.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>
#include <random>

#include "runtime/error.h"

namespace runtime::train {
namespace {

using Numbers = std::vector<int32_t>;

std::vector<std::byte> bytes_of(const Numbers& numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(int32_t));
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

// A random tensor-parallel slice of a tensor, and a random range of it.
Slice random_slice(const graph::Dims& dims, std::mt19937& random) {
  const auto up_to = [&](int64_t most) {
    return std::uniform_int_distribution<int64_t>(0, most)(random);
  };
  Slice s = whole_slice(dims);
  if (up_to(3) > 0) {
    parallel::Split& p = s.split;
    p.axis = static_cast<int>(up_to(static_cast<int64_t>(dims.size()) - 1));
    const int64_t length = dims[static_cast<size_t>(p.axis)];
    p.blocks = length % 2 == 0 && up_to(1) == 1 ? 2 : 1;
    p.whole = length / p.blocks;
    p.begin = up_to(p.whole);
    p.length = up_to(p.whole - p.begin);
    s.end = graph::element_count(parallel::local_dims(dims, p));
  }
  if (up_to(1) == 1) {
    s.begin = up_to(s.end);
    s.end = s.begin + up_to(s.end - s.begin);
  }
  return s;
}

// The tensor 0, 1, 2, ..., cut by the functions of the tensor axis and then to the range.
Numbers elements_of(const Slice& s) {
  Numbers all(static_cast<size_t>(graph::element_count(s.dims)));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<std::byte> cut = parallel::cut(bytes_of(all), s.dims, s.split);
  Numbers part(static_cast<size_t>(s.elements()));
  if (!part.empty())
    std::memcpy(part.data(), cut.data() + s.begin * int64_t{sizeof(int32_t)},
                part.size() * sizeof(int32_t));
  return part;
}

TEST(Slice, RandomOnesKnowWhatTheyHaveInCommon) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    graph::Dims dims(1 + random() % 4);
    for (int64_t& dim : dims) dim = 1 + static_cast<int64_t>(random() % 6);
    const Slice from = random_slice(dims, random), to = random_slice(dims, random);
    const Numbers source = elements_of(from), expected = elements_of(to);
    Numbers result(expected.size(), -1);
    size_t counted = 0;
    for (const CommonRun& run : common_runs(from, to)) {
      std::copy_n(source.begin() + run.in_from, run.count, result.begin() + run.in_to);
      counted += static_cast<size_t>(run.count);
    }
    size_t copied = 0;
    for (size_t k = 0; k < expected.size(); ++k) {
      const bool common = std::find(source.begin(), source.end(), expected[k]) != source.end();
      ASSERT_EQ(result[k], common ? expected[k] : -1) << to_json(from) << " to " << to_json(to);
      copied += common ? 1 : 0;
    }
    ASSERT_EQ(counted, copied) << to_json(from) << " to " << to_json(to);
  }
}

TEST(Slice, EqualOnesHaveOneRunInCommon) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const Slice s = random_slice({4, 6, 3}, random);
    EXPECT_EQ(common_runs(s, s).size(), s.elements() > 0 ? 1u : 0u) << to_json(s);
  }
}

TEST(Slice, ComesBackFromItsText) {
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) {
    const Slice s = random_slice({4, 6, 3}, random);
    const Slice back = parse_slice(to_json(s), "file");
    EXPECT_EQ(to_json(back), to_json(s));
    EXPECT_EQ(back.is_whole(), s.is_whole());
  }
}

TEST(Slice, NumbersThatDoNotFitAreRefused) {
  const auto refused = [](const std::string& text) {
    try {
      parse_slice(text, "rank-0.safetensors: tensor 'x'");
      return std::string("accepted");
    } catch (const DataError& error) {
      return std::string(error.what());
    }
  };
  const std::string split = R"({"axis":1,"blocks":2,"whole":3,"unit":1,"begin":0,"length":2})";
  EXPECT_EQ(refused(R"({"dims":[2,6],"split":)" + split + R"(,"range":[0,8]})"), "accepted");
  for (const std::string& text :
       {std::string("{"), std::string(R"({"dims":[2]})"),
        std::string(R"({"dims":[2],"range":[0,3]})"), std::string(R"({"dims":[-2],"range":[0,0]})"),
        std::string(R"({"dims":[2],"range":[1,0]})"),
        std::string(R"({"dims":[4611686018427387904,4],"range":[0,1]})"),
        R"({"dims":[2,5],"split":)" + split + R"(,"range":[0,8]})",
        R"({"dims":[2,6],"split":)" + split + R"(,"range":[0,9]})",
        R"({"dims":[6],"split":)" + split + R"(,"range":[0,4]})"}) {
    EXPECT_THAT(refused(text), testing::StartsWith("rank-0.safetensors: tensor 'x'")) << text;
  }
}

}  // namespace
}  // namespace runtime::train
