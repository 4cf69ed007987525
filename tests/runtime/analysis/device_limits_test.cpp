#include "runtime/analysis/device_limits.h"

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

TEST(DeviceLimitsTest, GivenOnesAreTaken) {
  const auto limits = device_limits(given(20, 3000), test::open_device("reference"), RT_FLOAT32);
  ASSERT_TRUE(limits.has_value());
  EXPECT_DOUBLE_EQ(limits->bytes_per_second, 20e9);
  EXPECT_DOUBLE_EQ(limits->flops_per_second, 3e12);
}

TEST(DeviceLimitsTest, TheOthersAreMeasured) {
  const auto limits = device_limits(given(20, 0), test::open_device("reference"), RT_FLOAT32);
  ASSERT_TRUE(limits.has_value());
  EXPECT_DOUBLE_EQ(limits->bytes_per_second, 20e9);
  // No processor is slower, and one thread of plain code is not faster.
  EXPECT_GT(limits->flops_per_second, 1e6);
  EXPECT_LT(limits->flops_per_second, 1e13);
}

TEST(DeviceLimitsTest, AreUnknownWhereTheDeviceCannotCompute) {
  EXPECT_FALSE(device_limits(given(20, 0), test::open_device("reference"), RT_UINT8).has_value());
}

}  // namespace
}  // namespace runtime::analysis
