// Utilisation, power and temperature, with doubles of the vendors' management libraries.
#include "backends/gpu/telemetry.h"

#include <gtest/gtest.h>

namespace backends::gpu {
namespace {

rt_utilisation read(Telemetry& telemetry) {
  rt_utilisation u{sizeof(rt_utilisation), 0, 0, 0, 0};
  telemetry.read(u);
  return u;
}

TEST(Telemetry, Nvml) {
  const auto telemetry = open_nvml({0, 0x65, 0}, NVML_DOUBLE);
  ASSERT_NE(telemetry, nullptr);
  const rt_utilisation u = read(*telemetry);
  EXPECT_EQ(u.compute_percent, 87);
  EXPECT_EQ(u.memory_percent, 31);
  EXPECT_EQ(u.power_milliwatts, 212500);
  EXPECT_EQ(u.temperature_celsius, -1) << "the double has no such sensor";
  EXPECT_EQ(open_nvml({0, 0x66, 0}, NVML_DOUBLE), nullptr) << "no such device";
}

TEST(Telemetry, RocmSmi) {
  const auto telemetry = open_rocm_smi({1, 0xc3, 0}, ROCM_SMI_DOUBLE);
  ASSERT_NE(telemetry, nullptr);
  const rt_utilisation u = read(*telemetry);
  EXPECT_EQ(u.compute_percent, 41);
  EXPECT_EQ(u.memory_percent, -1) << "the double lacks the function";
  EXPECT_EQ(u.power_milliwatts, 100001);
  EXPECT_EQ(u.temperature_celsius, 61);
  EXPECT_EQ(open_rocm_smi({0, 0xc3, 0}, ROCM_SMI_DOUBLE), nullptr) << "another domain";
}

TEST(Telemetry, WithoutTheLibraryNothingIsKnown) {
  EXPECT_EQ(open_nvml({0, 0x65, 0}, "libnvidia-ml-that-is-not-there.so.1"), nullptr);
  EXPECT_EQ(open_rocm_smi({0, 0x65, 0}, "librocm_smi-that-is-not-there.so"), nullptr);
  EXPECT_EQ(open_nvml({0, 0x65, 0}, ROCM_SMI_DOUBLE), nullptr) << "another library";
}

}  // namespace
}  // namespace backends::gpu
