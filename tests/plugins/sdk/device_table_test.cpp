// Checks memory information, refusals of indices, and the tables of a device plugin.
#include "rt/sdk/device_table.h"

#include <gtest/gtest.h>

#include "rt/sdk/plugin.h"
#include "tests/plugins/sdk/description.h"

namespace rt::sdk {
namespace {

TEST(OwnMemoryInfo, WhatIsNotAllocatedIsFree) {
  EXPECT_EQ(own_memory_info(100, 30).free_bytes, 70u);
  EXPECT_EQ(own_memory_info(100, 130).free_bytes, 0u);
  EXPECT_EQ(own_memory_info(100, 130).allocated_bytes, 130u);
}

TEST(ExpectFree, NamesWhatIsFreeAndTheLargestBuffer) {
  EXPECT_EQ(error_of([] { expect_free(50, 50, 80); }), "no error");
  EXPECT_EQ(error_of([] { expect_free(51, 50, 80); }),
            "51 bytes asked for; 50 are free, and the device gives at most 80 at once; use smaller "
            "batches");
  EXPECT_NE(error_of([] { expect_free(81, 100, 80); }), "no error");
}

TEST(ExpectDevice, RefusesIndicesThatDoNotExist) {
  EXPECT_EQ(error_of([] { expect_device(1, 2); }), "no error");
  EXPECT_EQ(error_of([] { expect_device(2, 2); }),
            "device 2 does not exist; the plugin has 2, counted from 0");
  EXPECT_NE(error_of([] { expect_device(-1, 2); }), "no error");
}

struct State {};

TEST(DevicePlugin, AnswersTheTablesThatItHas) {
  static const rt_device_api device{};
  static const rt_kernel_api kernel{};
  static const rt_capture_api capture{};
  const auto asked = [](const DevicePlugin& what, const char* name, uint32_t version) {
    rt_negotiation negotiation{};
    negotiation.size = sizeof(negotiation);
    negotiation.host_major_min = negotiation.host_major_max = RT_ABI_MAJOR;
    const rt_plugin* plugin = nullptr;
    EXPECT_EQ(make_device_plugin<State>(what, nullptr, &negotiation, &plugin, nullptr), RT_OK);
    const void* const table = plugin->get_interface(plugin->self, name, version);
    plugin->shutdown(plugin->self);
    return table;
  };
  const DevicePlugin plain = {"a", "b", "c", "d", "e", &device, &kernel};
  EXPECT_EQ(asked(plain, RT_INTERFACE_DEVICE, RT_DEVICE_API_VERSION), &device);
  EXPECT_EQ(asked(plain, RT_INTERFACE_KERNEL, RT_KERNEL_API_VERSION), &kernel);
  EXPECT_EQ(asked(plain, RT_INTERFACE_CAPTURE, RT_CAPTURE_API_VERSION), nullptr);
  DevicePlugin records = plain;
  records.capture = &capture;
  EXPECT_EQ(asked(records, RT_INTERFACE_CAPTURE, RT_CAPTURE_API_VERSION), &capture);
  EXPECT_EQ(asked(records, RT_INTERFACE_CAPTURE, RT_CAPTURE_API_VERSION + 1), nullptr);
}

}  // namespace
}  // namespace rt::sdk
