// Tests dropout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "rt/sdk/philox.h"
#include "tests/backends/reference/harness.h"

namespace backends::reference::testing {
namespace {

using plugins::host::Operation;
using ::testing::Each;

constexpr int64_t kSeed = 0x0123456789abcdef;

Operation dropout(const Dims& dims, double probability, int64_t stream = 3) {
  Operation op = operation(
      RT_OP_DROPOUT, {dims, {1}, {1}}, {dims},
      {{RT_ATTR_PROBABILITY, probability}, {RT_ATTR_SEED, kSeed}, {RT_ATTR_STREAM, stream}});
  op.inputs[1].dtype = op.inputs[2].dtype = RT_INT64;
  return op;
}

Array mask(const Dims& dims, double step, double base, double probability = 0.5,
           int64_t stream = 3) {
  const Array ones(static_cast<size_t>(count(dims)), 1.0);
  return run1(dropout(dims, probability, stream), {ones, {step}, {base}});
}

TEST(Dropout, FollowsTheDocumentedCounter) {
  const Array y = mask({2, 6}, 7, 100);
  for (uint32_t n = 0; n < 2; ++n) {
    for (uint32_t e = 0; e < 6; ++e) {
      const rt::sdk::PhiloxCounter words =
          rt::sdk::philox4x32_10({e / 4, 100 + n, 7, 3}, {0x89abcdef, 0x01234567});
      const double u = (words[e % 4] >> 8) / 16777216.0;
      EXPECT_EQ(y[n * 6 + e], u >= 0.5 ? 2.0 : 0.0) << n << " " << e;
    }
  }
}

TEST(Dropout, MaskDoesNotDependOnTheSplitOverRanks) {
  const Array whole = mask({8, 5, 3}, 4, 1000);
  Array parts;
  for (const auto& [samples, base] : {std::pair{3, 1000.0}, {1, 1003.0}, {4, 1004.0}}) {
    const Array part = mask({samples, 5, 3}, 4, base);
    parts.insert(parts.end(), part.begin(), part.end());
  }
  EXPECT_EQ(parts, whole);
}

TEST(Dropout, MaskDoesNotDependOnTheSplitOfFeatures) {
  const Array whole = mask({3, 5, 7}, 4, 1000);
  for (const auto& [first, columns] : {std::pair{int64_t{0}, int64_t{3}}, {3, 2}, {5, 2}}) {
    Operation op = dropout({3, 5, columns}, 0.5);
    op.attributes.push_back({RT_ATTR_COLUMNS, columns});
    op.attributes.push_back({RT_ATTR_WHOLE_COLUMNS, int64_t{7}});
    op.attributes.push_back({RT_ATTR_FIRST_COLUMN, first});
    const Array ones(static_cast<size_t>(15 * columns), 1.0);
    const Array part = run1(op, {ones, {4}, {1000}});
    for (int64_t i = 0; i < 15; ++i) {
      for (int64_t j = 0; j < columns; ++j)
        EXPECT_EQ(part[i * columns + j], whole[i * 7 + first + j]) << i << " " << j;
    }
  }
}

TEST(Dropout, MaskDependsOnStepStreamAndSample) {
  const Array first = mask({4, 50}, 1, 0);
  EXPECT_NE(first, mask({4, 50}, 2, 0));
  EXPECT_NE(first, mask({4, 50}, 1, 4));
  EXPECT_NE(first, mask({4, 50}, 1, 0, 0.5, 4));
  EXPECT_EQ(first, mask({4, 50}, 1, 0));
}

TEST(Dropout, KeepsTheExpectedShareAndMean) {
  constexpr double kProbability = 0.3, kCount = 100 * 1000;
  double kept = 0, sum = 0;
  for (const double v : mask({100, 1000}, 1, 0, kProbability)) {
    kept += v != 0;
    sum += v;
  }
  // Four standard deviations of a binomial distribution.
  const double deviation = std::sqrt(kProbability * (1 - kProbability) / kCount);
  EXPECT_NEAR(kept / kCount, 1 - kProbability, 4 * deviation);
  EXPECT_NEAR(sum / kCount, 1.0, 4 * deviation / (1 - kProbability));
}

TEST(Dropout, ProbabilityZeroKeepsEverything) { EXPECT_THAT(mask({3, 7}, 1, 0, 0.0), Each(1.0)); }

TEST(Dropout, Float32TakesTheSameMask) {
  Operation op = dropout({4, 9}, 0.5);
  op.inputs[0].dtype = op.outputs[0].dtype = RT_FLOAT32;
  EXPECT_EQ(run1(op, {Array(36, 1.0), {1}, {0}}), mask({4, 9}, 1, 0));
}

}  // namespace
}  // namespace backends::reference::testing
