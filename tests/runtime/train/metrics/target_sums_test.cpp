// Compares metrics of regressions with numbers by hand.
#include "runtime/train/metrics/target_sums.h"

#include <gmock/gmock.h>

#include <random>

#include "runtime/error.h"
#include "tests/runtime/train/metrics/fake_ranks.h"

namespace runtime::train {
namespace {

double value(const Samples& samples, int ranks, const std::string& name) {
  return value_over_ranks(samples, ranks, name, [&] {
    return std::make_unique<TargetSums>(FamilyOptions{.targets = samples.width});
  });
}

TEST(TargetSums, ByHand) {
  // Errors 1, -1, 2, 0; the targets 1, 2, 3, 4 have the mean 2.5 and squared deviations of 5.
  const Samples s{
      .width = 1, .batch = 3, .outputs = {2, 1, 5, 4}, .labels = {}, .targets = {1, 2, 3, 4}};
  for (const int ranks : {1, 2}) {
    EXPECT_DOUBLE_EQ(value(s, ranks, "mse"), 6.0 / 4);
    EXPECT_DOUBLE_EQ(value(s, ranks, "mae"), 1);
    EXPECT_DOUBLE_EQ(value(s, ranks, "r2"), 1 - 6.0 / 5);
  }
}

TEST(TargetSums, KnowTheirMetrics) {
  EXPECT_THROW(TargetSums({.targets = 1}).value("later"), InternalError);
}

TEST(TargetSums, AreMeansOverTheTargets) {
  const Samples s{.width = 2,
                  .batch = 2,
                  .outputs = {1, 0, 3, 1, 2, 2},
                  .labels = {},
                  .targets = {1, 1, 2, 1, 3, 4}};
  const double first = 1 - 2.0 / 2, second = 1 - 5.0 / 6;  // errors 0 1 -1 and -1 0 -2
  EXPECT_DOUBLE_EQ(value(s, 1, "r2"), (first + second) / 2);
  EXPECT_DOUBLE_EQ(value(s, 1, "mse"), 7.0 / 6);
}

TEST(TargetSums, ConstantTargetsAreExplainedOrNot) {
  const Samples exact{.width = 1,
                      .batch = 2,
                      .outputs = {0.1f, 0.1f, 0.1f},
                      .labels = {},
                      .targets = {0.1f, 0.1f, 0.1f}};
  EXPECT_EQ(value(exact, 2, "r2"), 1);
  Samples wrong = exact;
  wrong.outputs[1] = 2;
  EXPECT_EQ(value(wrong, 2, "r2"), 0);
}

// A mean far from 0 makes sums of squares lose all digits, and the bits must not depend on the
// ranks.
TEST(TargetSums, KeepTheirDigitsAndTheirBits) {
  std::mt19937 random(3);
  std::normal_distribution<float> noise;
  Samples s{.width = 1, .batch = 5, .outputs = {}, .labels = {}, .targets = {}};
  double mean = 0;
  for (int i = 0; i < 203; ++i) {
    s.targets.push_back(1e6f + noise(random));
    s.outputs.push_back(s.targets.back() + noise(random));
    mean += static_cast<double>(s.targets.back()) / 203;
  }
  double errors = 0, deviations = 0;
  for (size_t i = 0; i < s.targets.size(); ++i) {
    errors += std::pow(s.outputs[i] - s.targets[i], 2);
    deviations += std::pow(s.targets[i] - mean, 2);
  }
  const double one = value(s, 1, "r2");
  EXPECT_NEAR(one, 1 - errors / deviations, 1e-9);
  for (const int ranks : {2, 3, 4}) EXPECT_EQ(value(s, ranks, "r2"), one) << ranks;
}

}  // namespace
}  // namespace runtime::train
