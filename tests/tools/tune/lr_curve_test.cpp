// Checks the rates that are suggested from made-up curves.
#include "tools/tune/lr_curve.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tools::tune {
namespace {

// Rates from 1e-6 to 10, and the loss of the decade that a function gives.
template <class Loss>
std::vector<LrPoint> curve(size_t count, Loss loss) {
  std::vector<LrPoint> points;
  for (size_t i = 0; i < count; ++i) {
    const double decade = -6 + 7 * static_cast<double>(i) / static_cast<double>(count - 1);
    points.push_back({std::pow(10, decade), loss(decade)});
  }
  return points;
}

TEST(LrCurve, FindsTheSteepestDescentAndTheLowestLoss) {
  // 2 - tanh falls fastest at 1e-2; the parabola added above 1e-1 makes the loss rise again.
  const auto points = curve(141, [](double d) {
    const double over = std::max(0.0, d + 0.5);
    return 2 - std::tanh(2 * (d + 2)) + 3 * over * over;
  });
  const std::optional<LrSuggestion> found = suggest(points);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(std::log10(found->steepest), -2, 0.06);
  // The derivative of the sum is 0 where 2 / cosh(2 (d + 2))^2 = 6 (d + 0.5), at -0.497. Smoothing
  // sees the rise 4 points, 0.2 decades, before.
  EXPECT_NEAR(std::log10(found->lowest), -0.497, 0.2);
  EXPECT_DOUBLE_EQ(found->tenth(), found->lowest / 10);
}

TEST(LrCurve, TheFirstRateToTryHasAMargin) {
  LrSuggestion found;
  found.steepest = 0.86;
  found.lowest = 1.9;
  EXPECT_DOUBLE_EQ(found.rates_to_try()[0], 0.19);
  EXPECT_DOUBLE_EQ(found.rates_to_try()[1], 0.19 * std::sqrt(10));
  EXPECT_DOUBLE_EQ(found.rates_to_try()[2], 0.19 / std::sqrt(10));
  found.steepest = 0.01;
  EXPECT_DOUBLE_EQ(found.rates_to_try()[0], 0.01);
  found.lowest = found.steepest = 0.02;  // the tenth is the first; no more than the lowest after it
  for (const double rate : found.rates_to_try()) EXPECT_LT(rate, 0.02);
}

TEST(LrCurve, ARateIsUsableIfTheLossFallsByHalfOfTheTest) {
  const auto losses = [](double first, double last) {
    std::vector<LrPoint> points;
    for (int i = 0; i < 60; ++i) points.push_back({0.1, first + (last - first) * i / 59});
    return points;
  };
  EXPECT_TRUE(is_usable(losses(2.3, 1.1), 0.8));
  EXPECT_FALSE(is_usable(losses(2.3, 2.3), 0.8));  // a network that has died
  EXPECT_FALSE(is_usable(losses(2.3, 2.0), 0.8));
  EXPECT_FALSE(is_usable({}, 0.8));
}

TEST(LrCurve, NoiseDoesNotMoveItFar) {
  int sign = 1;
  const auto points = curve(200, [&](double d) {
    sign = -sign;
    return 2 - std::tanh(2 * (d + 3)) + sign * 0.1;
  });
  EXPECT_NEAR(std::log10(suggest(points)->steepest), -3, 0.3);
}

TEST(LrCurve, SaysNothingWithoutADescent) {
  EXPECT_FALSE(suggest(curve(100, [](double d) { return d; })).has_value());
  EXPECT_FALSE(suggest(curve(100, [](double) { return 1.0; })).has_value());
  EXPECT_FALSE(suggest(curve(9, [](double d) { return -d; })).has_value());
  EXPECT_FALSE(suggest({}).has_value());
}

TEST(LrCurve, TheBeginningIsLeftOut) {
  // The fastest fall is in the first tenth.
  const auto points =
      curve(100, [](double d) { return d < -5.6 ? 100 * -d : 560 - std::tanh(4 * (d + 1)); });
  EXPECT_NEAR(std::log10(suggest(points)->steepest), -1, 0.15);
}

TEST(LrCurve, AFallBehindTheLowestLossDoesNotCount) {
  const auto points =
      curve(141, [](double d) { return d < 0 ? 2 - std::tanh(2 * (d + 2)) : 10 - 9.5 * d; });
  EXPECT_NEAR(std::log10(suggest(points)->steepest), -2, 0.06);
}

TEST(LrCurve, SmoothingIsTheMeanOfTheNeighbours) {
  const std::vector<LrPoint> points = {{1, 0}, {2, 3}, {3, 6}, {4, 0}, {5, 30}};
  EXPECT_EQ(smoothed(points, 1), (std::vector<double>{0, 3, 3, 12, 30}));
  EXPECT_EQ(smoothed(points, 2), (std::vector<double>{0, 3, 7.8, 12, 30}));
  EXPECT_EQ(smoothed(points, 0), (std::vector<double>{0, 3, 6, 0, 30}));
}

// The mean, written out as Lightning computes it.
TEST(DivergenceWatch, ComparesTheRunningMeanWithItsLowest) {
  DivergenceWatch watch(4);
  double average = 0, lowest = INFINITY;
  for (int step = 1; step <= 200; ++step) {
    const double loss = step < 100 ? 2.0 : 2.0 * std::pow(1.1, step - 100);
    average = 0.98 * average + 0.02 * loss;
    const double mean = average / (1 - std::pow(0.98, step));
    lowest = std::min(lowest, mean);
    const bool diverged = watch.add(loss);
    EXPECT_EQ(diverged, step > 1 && mean > 4 * lowest) << step;
    if (diverged) return;
  }
  ADD_FAILURE() << "has not diverged";
}

TEST(DivergenceWatch, ALossThatIsNoNumberHasDiverged) {
  EXPECT_TRUE(DivergenceWatch(4).add(NAN));
  EXPECT_TRUE(DivergenceWatch(4).add(INFINITY));
  EXPECT_FALSE(DivergenceWatch(4).add(1e300));
}

}  // namespace
}  // namespace tools::tune
