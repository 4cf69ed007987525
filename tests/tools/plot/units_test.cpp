// Checks digits, thousands and units of numbers.
#include "tools/plot/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace tools::plot {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Units, NumbersHaveFourDigits) {
  EXPECT_EQ(to_text(0.41802, Unit::kNumber), "0.418");
  EXPECT_EQ(to_text(-12.3456, Unit::kNumber), "-12.35");
  EXPECT_EQ(to_text(0.00001, Unit::kNumber), "1e-05");
  EXPECT_EQ(to_text(0, Unit::kNumber), "0");
}

TEST(Units, ThousandsAreApart) {
  EXPECT_EQ(to_text(999, Unit::kCount), "999");
  EXPECT_EQ(to_text(25177, Unit::kCount), "25,177");
  EXPECT_EQ(to_text(-1234567, Unit::kCount), "-1,234,567");
}

TEST(Units, WhatIsNoNumber) {
  EXPECT_EQ(to_text(kNone, Unit::kBytes), "-");
  EXPECT_EQ(to_text(kInfinity, Unit::kNumber), "infinite");
  EXPECT_EQ(to_text(-kInfinity, Unit::kSeconds), "-infinite");
}

TEST(Units, BytesHavePowersOf1024) {
  EXPECT_EQ(to_text(1023, Unit::kBytes), "1,023 B");
  EXPECT_EQ(to_text(1536, Unit::kBytes), "1.5 KiB");
  EXPECT_EQ(to_text(3.0 * (1 << 30), Unit::kBytes), "3 GiB");
}

TEST(Units, SecondsHaveTheUnitThatFits) {
  EXPECT_EQ(to_text(0, Unit::kSeconds), "0 s");
  EXPECT_EQ(to_text(5e-9, Unit::kSeconds), "5 ns");
  EXPECT_EQ(to_text(12.5e-6, Unit::kSeconds), "12.5 us");
  EXPECT_EQ(to_text(0.25, Unit::kSeconds), "250 ms");
  EXPECT_EQ(to_text(119.6, Unit::kSeconds), "120 s");
  EXPECT_EQ(to_text(125, Unit::kSeconds), "2 min 05 s");
  EXPECT_EQ(to_text(3 * 3600 + 120, Unit::kSeconds), "3 h 02 min");
  EXPECT_EQ(to_text(1e300, Unit::kSeconds), "1e+300 s");
}

TEST(Units, FractionsArePercents) {
  EXPECT_EQ(to_text(0.7217, Unit::kFraction), "72.2 %");
  EXPECT_EQ(to_text(-0.5, Unit::kFraction), "-50 %");
}

TEST(Units, LabelsHaveTheDigitsThatTheirDistanceNeeds) {
  EXPECT_EQ(to_label(0.30000000000000004, Unit::kNumber, 0.1), "0.3");
  EXPECT_EQ(to_label(0.125, Unit::kNumber, 0.005), "0.125");
  EXPECT_EQ(to_label(25000, Unit::kCount, 5000), "25k");
  EXPECT_EQ(to_label(1500000, Unit::kCount, 500000), "1.5M");
  EXPECT_EQ(to_label(2e-6, Unit::kNumber, 1e-6), "2e-06");
  EXPECT_EQ(to_label(0, Unit::kBytes, 1024), "0");
  EXPECT_EQ(to_label(180, Unit::kSeconds, 60), "3 min");
  EXPECT_EQ(to_label(7200, Unit::kSeconds, 3600), "2 h");
}

}  // namespace
}  // namespace tools::plot
