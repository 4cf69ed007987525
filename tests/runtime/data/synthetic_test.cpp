// Checks that generated data depend on the seed only and can be learned.
#include "runtime/data/synthetic.h"

#include <gmock/gmock.h>

#include <cmath>

#include "runtime/error.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using test::features_of;

SyntheticOptions classification(uint64_t seed = 1) { return {{}, 600, 3, 0, seed}; }

float distance(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

TEST(Synthetic, DependsOnTheSeedOnly) {
  SyntheticOptions options = classification();
  options.shape = {4, 4, 2};
  const auto first = make_synthetic(options), second = make_synthetic(options);
  options.seed = 2;
  const auto other = make_synthetic(options);
  EXPECT_EQ(features_of(*first, 5), features_of(*second, 5));
  EXPECT_NE(features_of(*first, 5), features_of(*other, 5));
  EXPECT_NE(features_of(*first, 5), features_of(*first, 8));
  EXPECT_EQ(first->description(), "synthetic, 600 samples of 4x4x2, 3 classes");
}

// The class means of the first half of the samples classify the second half.
TEST(Synthetic, ClassesCanBeLearned) {
  constexpr std::size_t kFeatures = 64;
  SyntheticOptions options = classification();
  options.shape = {kFeatures};
  const auto dataset = make_synthetic(options);
  std::vector<std::vector<float>> means(3, std::vector<float>(kFeatures));
  for (int64_t i = 0; i < 300; ++i) {
    const std::vector<float> sample = features_of(*dataset, i);
    std::vector<float>& mean = means[static_cast<std::size_t>(dataset->label(i))];
    for (std::size_t f = 0; f < kFeatures; ++f) mean[f] += sample[f] / 100;
  }
  for (int64_t i = 300; i < 600; ++i) {
    const std::vector<float> sample = features_of(*dataset, i);
    std::size_t nearest = 0;
    for (std::size_t c = 1; c < 3; ++c) {
      if (distance(sample, means[c]) < distance(sample, means[nearest])) nearest = c;
    }
    EXPECT_EQ(dataset->label(i), static_cast<int32_t>(nearest));
  }
}

TEST(Synthetic, RegressionIsLinear) {
  const auto dataset = make_synthetic({{1}, 50, 0, 2, 3});
  EXPECT_EQ(dataset->spec().targets, 2);
  EXPECT_EQ(dataset->spec().classes, 0);
  float first[2] = {};
  dataset->read_targets(0, first);
  const float x0 = features_of(*dataset, 0)[0];
  for (int64_t i = 1; i < 50; ++i) {
    float targets[2] = {};
    dataset->read_targets(i, targets);
    const float x = features_of(*dataset, i)[0];
    EXPECT_NEAR(targets[0] * x0, first[0] * x, 1e-4);
    EXPECT_NEAR(targets[1] * x0, first[1] * x, 1e-4);
  }
}

TEST(Synthetic, RefusesSizesWithoutSense) {
  using Shape = std::vector<int64_t>;
  EXPECT_THROW(make_synthetic({Shape{4}, 0, 3, 0, 1}), ConfigurationError);
  EXPECT_THROW(make_synthetic({Shape{4}, 5, 0, 0, 1}), ConfigurationError);
  EXPECT_THROW(make_synthetic({Shape{4}, 5, 1 << 30, 0, 1}), ConfigurationError);
  EXPECT_THROW(make_synthetic({Shape{}, 5, 3, 0, 1}), ConfigurationError);
  EXPECT_THROW(make_synthetic({Shape{4, 0}, 5, 3, 0, 1}), ConfigurationError);
  EXPECT_THROW(make_synthetic({Shape{1 << 30, 1 << 30, 1 << 30}, 5, 3, 0, 1}), ConfigurationError);
}

}  // namespace
}  // namespace runtime::data
