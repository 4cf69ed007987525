// Compares the frequencies of rotary positions with those of the published formulas.
#include "runtime/model/rotations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace runtime::model {
namespace {

TEST(Rotations, FallWithThePair) {
  const std::vector<double> f = frequencies({.base = 100}, 4);
  ASSERT_EQ(f.size(), 2U);
  EXPECT_DOUBLE_EQ(f[0], 1);
  EXPECT_DOUBLE_EQ(f[1], 0.1);
}

TEST(Rotations, SinesAndCosinesTakeTurns) {
  const std::vector<double> table = sinusoids(10000, 5, 3);
  ASSERT_EQ(table.size(), 15U);
  for (int i : {0, 2, 4}) EXPECT_EQ(table[i], 0);
  for (int i : {1, 3}) EXPECT_EQ(table[i], 1);
  EXPECT_DOUBLE_EQ(table[5], std::sin(1));
  EXPECT_DOUBLE_EQ(table[6], std::cos(1));
  EXPECT_DOUBLE_EQ(table[13], std::cos(2 * std::pow(10000, -2.0 / 5)));
  EXPECT_DOUBLE_EQ(table[14], std::sin(2 * std::pow(10000, -4.0 / 5)));
}

TEST(Rotations, LinearScalingDividesAll) {
  const std::vector<double> f =
      frequencies({.base = 100, .scaling = RotationScaling::kLinear, .factor = 8}, 4);
  EXPECT_DOUBLE_EQ(f[0], 1.0 / 8);
  EXPECT_DOUBLE_EQ(f[1], 0.1 / 8);
}

// The waves of the three pairs are 2 pi, 2 pi 100 and 2 pi 10000 tokens long, and the original
// length is 1000: they fit 159, 1.59 and 0.0159 times.
TEST(Rotations, Llama3KeepsShortWavesAndDividesLongOnes) {
  const std::vector<double> f = frequencies({.base = 1e6,
                                             .scaling = RotationScaling::kLlama3,
                                             .factor = 8,
                                             .original_length = 1000,
                                             .low = 1,
                                             .high = 4},
                                            6);
  ASSERT_EQ(f.size(), 3U);
  EXPECT_DOUBLE_EQ(f[0], 1);
  const double kept = (1000 * 0.01 / (2 * std::numbers::pi) - 1) / 3;
  EXPECT_NEAR(f[1], 0.01 * (kept + (1 - kept) / 8), 1e-15);
  EXPECT_NEAR(f[2], 1e-4 / 8, 1e-18);
}

TEST(Rotations, YarnRampsBetweenPairsAndLengthensTurns) {
  const Rotations yarn{
      .base = 10000, .scaling = RotationScaling::kYarn, .factor = 4, .original_length = 32768};
  const std::vector<double> f = frequencies(yarn, 128);
  // The pairs that turn 32 times and once are 35.4 and 59.5: the ramp goes from 35 to 60.
  for (int pair : {0, 35}) EXPECT_NEAR(f[pair], std::pow(10000, -pair / 64.0), 1e-15);
  for (int pair : {60, 63}) EXPECT_NEAR(f[pair], std::pow(10000, -pair / 64.0) / 4, 1e-15);
  EXPECT_NEAR(f[45], std::pow(10000, -45 / 64.0) * (0.6 + 0.4 / 4), 1e-15);
  const double length = 0.1 * std::log(4) + 1;
  const std::vector<double> at = turns(yarn, 128, 2);
  EXPECT_DOUBLE_EQ(at[0], length);
  EXPECT_DOUBLE_EQ(at[128], length * std::cos(1));
  EXPECT_DOUBLE_EQ(at[128 + 64], length * std::sin(1));
}

}  // namespace
}  // namespace runtime::model
