// Checks given and measured limits, and rates between the measured sizes.
#include "runtime/analysis/roofline.h"

#include <gtest/gtest.h>

#include "tests/runtime/support/devices.h"

namespace runtime::analysis {
namespace {

config::Profiling given(double memory_gbps, double gflops) {
  config::Profiling p;
  p.memory_gbps = memory_gbps;
  p.gflops = gflops;
  return p;
}

TEST(RooflineTest, GivenOnesAreTaken) {
  const auto limits = measure_roofline(given(20, 3000), test::open_device("reference"), RT_FLOAT32);
  ASSERT_TRUE(limits.has_value());
  EXPECT_DOUBLE_EQ(limits->least_seconds(0, 40e9), 2);
  EXPECT_DOUBLE_EQ(limits->flops_per_second, 3e12);
}

TEST(RooflineTest, TheOthersAreMeasured) {
  const auto limits = measure_roofline(given(20, 0), test::open_device("reference"), RT_FLOAT32);
  ASSERT_TRUE(limits.has_value());
  EXPECT_DOUBLE_EQ(limits->least_seconds(0, 40e9), 2);
  // No processor is slower, and one thread of plain code is not faster.
  EXPECT_GT(limits->flops_per_second, 1e6);
  EXPECT_LT(limits->flops_per_second, 1e13);
}

TEST(RooflineTest, SmallOperandsAreMovedAtTheRateOfTheirSize) {
  const Roofline limits{{{1e3, 1e12}, {1e6, 1e11}, {1e9, 1e10}}, 1e12};
  EXPECT_DOUBLE_EQ(limits.least_seconds(0, 1e3), 1e-9);
  EXPECT_DOUBLE_EQ(limits.least_seconds(0, 1e2), 1e-10) << "the rate of the smallest";
  EXPECT_NEAR(limits.bandwidth(1e4), 7e11, 1) << "a third of the way from 1e3 to 1e6";
  EXPECT_NEAR(limits.bandwidth(1e8), 4e10, 1);
  EXPECT_DOUBLE_EQ(limits.least_seconds(0, 1e6), 1e-5);
  EXPECT_DOUBLE_EQ(limits.least_seconds(0, 1e10), 1) << "the rate of the largest";
  EXPECT_DOUBLE_EQ(limits.least_seconds(3e12, 1e10), 3) << "the arithmetic takes longer";
}

TEST(RooflineTest, TheRatesFallWithTheSize) {
  const auto limits = measure_roofline(given(0, 1), test::open_device("reference"), RT_FLOAT32);
  ASSERT_TRUE(limits.has_value());
  ASSERT_GT(limits->bandwidths.size(), 3u);
  for (size_t i = 1; i < limits->bandwidths.size(); ++i) {
    EXPECT_LT(limits->bandwidths[i - 1].bytes, limits->bandwidths[i].bytes);
    EXPECT_GE(limits->bandwidths[i - 1].bytes_per_second, limits->bandwidths[i].bytes_per_second);
  }
  EXPECT_GT(limits->bandwidths.back().bytes_per_second, 1e6);
}

TEST(RooflineTest, IsUnknownWhereTheDeviceCannotCompute) {
  EXPECT_FALSE(
      measure_roofline(given(20, 0), test::open_device("reference"), RT_UINT8).has_value());
}

}  // namespace
}  // namespace runtime::analysis
