// The plugin as it is built for real devices loads on any machine; if a device cannot be used, the
// plugin gives the message of the vendor's runtime as the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/host/device.h"
#include "plugins/host/error.h"

namespace {

namespace host = plugins::host;

TEST(GpuListing, ADeviceIsUsableOrSaysWhyNot) {
  const auto plugin = host::Plugin::load(GPU_PLUGIN, {});
  const std::vector<host::DeviceInfo> devices = host::list_devices(*plugin);
  ASSERT_FALSE(devices.empty());
  if (devices[0].usable()) {
    EXPECT_NE(host::Device::open(plugin, 0), nullptr);
    return;
  }
  const std::string reason = devices[0].properties.unusable_reason;
  EXPECT_THAT(reason, testing::HasSubstr("failed: "));
  try {
    host::Device::open(plugin, 0);
    FAIL() << "opened a device that is listed as unusable";
  } catch (const host::Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(reason));
  }
}

TEST(GpuListing, AnIndexThatIsNotThereIsRefused) {
  const auto plugin = host::Plugin::load(GPU_PLUGIN, {});
  EXPECT_THROW(host::Device::open(plugin, 99), host::Error);
  for (const int32_t index : {-1, 99}) {
    rt_device_properties properties{};
    properties.size = sizeof(properties);
    rt_error error = host::make_error();
    EXPECT_EQ(plugin->device_api()->properties(plugin->self(), index, &properties, &error),
              RT_ERROR_INVALID_ARGUMENT)
        << index;
  }
}

}  // namespace
