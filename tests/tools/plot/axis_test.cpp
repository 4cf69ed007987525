// Checks ticks, ranges and labels of axes.
#include "tools/plot/axis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tools::plot {
namespace {

using testing::DoubleEq;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

Range range_of(double low, double high) {
  Range range;
  range.add(high);
  range.add(low);
  return range;
}

MATCHER_P(Near, values, "") {
  return testing::ExplainMatchResult(Pointwise(testing::DoubleEq(), values), arg, result_listener);
}

TEST(Axis, TicksAreMultiplesOfNiceSteps) {
  EXPECT_THAT(linear_axis(range_of(50, 900), 5).ticks, ElementsAre(200, 400, 600, 800));
  EXPECT_THAT(linear_axis(range_of(-1, 1), 4).ticks, ElementsAre(-1, -0.5, 0, 0.5, 1));
}

TEST(Axis, ARangeIsWidenedToTheTicksAroundIt) {
  const Axis axis = rounded_axis(range_of(0.447, 2.02), 5);
  EXPECT_THAT(axis.low, DoubleNear(0, 1e-12));
  EXPECT_THAT(axis.high, DoubleNear(2.5, 1e-12));
  EXPECT_EQ(axis.ticks.size(), 6u);
}

TEST(Axis, ARangeWithoutExtentIsWidened) {
  for (const double value : {0.0, 3.0, -1e-3, 1e300, 5e-324}) {
    const Axis axis = linear_axis(range_of(value, value), 5);
    EXPECT_LT(axis.low, value) << value;
    EXPECT_GT(axis.high, value) << value;
    EXPECT_FALSE(axis.ticks.empty()) << value;
    EXPECT_LT(axis.ticks.size(), 20u) << value;
  }
}

TEST(Axis, AnEmptyRangeIsFromZeroToOne) {
  Range range;
  range.add(std::numeric_limits<double>::quiet_NaN());
  range.add(std::numeric_limits<double>::infinity());
  EXPECT_TRUE(range.empty());
  const Axis axis = linear_axis(range, 5);
  EXPECT_EQ(axis.low, 0);
  EXPECT_EQ(axis.high, 1);
}

TEST(Axis, TheLargestNumbersHaveAnAxis) {
  const double most = std::numeric_limits<double>::max();
  const Axis axis = rounded_axis(range_of(-most, most), 5);
  EXPECT_LT(axis.ticks.size(), 20u);
  EXPECT_GT(axis.ticks.size(), 1u);
}

TEST(Axis, WhatIsCountedHasWholeTicks) {
  EXPECT_THAT(linear_axis(range_of(1, 3), 5, Unit::kCount).ticks, ElementsAre(1, 2, 3));
}

TEST(Axis, BytesHaveTicksInPowersOf1024) {
  constexpr double kMiB = 1 << 20;
  EXPECT_THAT(rounded_axis(range_of(0, 21.7 * kMiB), 5, Unit::kBytes).ticks,
              ElementsAre(0, 5 * kMiB, 10 * kMiB, 15 * kMiB, 20 * kMiB, 25 * kMiB));
}

TEST(Axis, SecondsHaveTicksAtWholeMinutes) {
  EXPECT_THAT(rounded_axis(range_of(0, 290), 5, Unit::kSeconds).ticks,
              ElementsAre(0, 60, 120, 180, 240, 300));
}

TEST(Axis, PlacesAreFromZeroToOne) {
  const Axis linear = linear_axis(range_of(10, 20), 5);
  EXPECT_THAT(linear.place(10), DoubleEq(0));
  EXPECT_THAT(linear.place(15), DoubleEq(0.5));
  const Axis logarithmic = logarithmic_axis(range_of(0.001, 10));
  EXPECT_THAT(logarithmic.place(0.1), DoubleNear(0.5, 1e-12));
}

TEST(Axis, LogarithmicTicksArePowersOfTenOrBetween) {
  EXPECT_THAT(logarithmic_axis(range_of(0.0005, 20)).ticks,
              Near(std::vector<double>{0.001, 0.01, 0.1, 1, 10}));
  EXPECT_THAT(logarithmic_axis(range_of(0.3, 3)).ticks, Near(std::vector<double>{0.5, 1, 2}));
  EXPECT_LT(logarithmic_axis(range_of(1e-300, 1e300)).ticks.size(), 12u);
}

}  // namespace
}  // namespace tools::plot
