// Checks memory information, refusals of indices, and the tables of a device plugin.
#include "rt/sdk/device_table.h"

#include <gtest/gtest.h>

#include "rt/sdk/inline_event.h"
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

TEST(ExpectAllocation, RefusesNoBytesAndUnknownKinds) {
  EXPECT_EQ(error_of([] { expect_allocation(1, RT_MEMORY_PINNED_HOST); }), "no error");
  EXPECT_EQ(error_of([] { expect_allocation(0, RT_MEMORY_DEVICE); }),
            "an allocation of 0 bytes; expected at least 1");
  EXPECT_EQ(error_of([] { expect_allocation(1, 7); }),
            "memory kind 7; expected RT_MEMORY_DEVICE (0) or RT_MEMORY_PINNED_HOST (1)");
}

TEST(ExpectByte, RefusesWhatMemsetWouldCut) {
  EXPECT_EQ(error_of([] { expect_byte(255); }), "no error");
  EXPECT_EQ(error_of([] { expect_byte(256); }), "fill value 256; expected 0 to 255");
  EXPECT_NE(error_of([] { expect_byte(-1); }), "no error");
}

TEST(InlineEvent, TellsTheTimeBetweenTwoRecords) {
  int stream = 0;
  InlineEvent begin, end;
  EXPECT_TRUE(begin.is_complete());
  begin.record(stream);
  EXPECT_EQ(error_of([&] { begin.elapsed_until(end); }),
            "the elapsed time of an event that was never recorded; record both events and wait for "
            "them first");
  end.record(stream);
  EXPECT_GE(begin.elapsed_until(end), 0);
}

template <typename State>
const rt_plugin* plugin_of(const PluginDescription& what, const rt_host* host = nullptr) {
  rt_negotiation negotiation{};
  negotiation.size = sizeof(negotiation);
  negotiation.host_major_min = negotiation.host_major_max = RT_ABI_MAJOR;
  const rt_plugin* plugin = nullptr;
  EXPECT_EQ(make_plugin<State>([&] { return what; }, host, &negotiation, &plugin, nullptr), RT_OK);
  return plugin;
}

template <typename Api>
Api empty_table(uint32_t version) {
  Api table{};
  table.version = version;
  return table;
}

TEST(Plugin, AnswersTheTablesThatItHas) {
  static const auto device = empty_table<rt_device_api>(RT_DEVICE_API_VERSION);
  static const auto kernel = empty_table<rt_kernel_api>(RT_KERNEL_API_VERSION);
  static const auto capture = empty_table<rt_capture_api>(RT_CAPTURE_API_VERSION);
  const auto asked = [](const PluginDescription& what, const char* name, uint32_t version) {
    const rt_plugin* const plugin = plugin_of<NoState>(what);
    const void* const table = plugin->get_interface(plugin->self, name, version);
    plugin->shutdown(plugin->self);
    return table;
  };
  const PluginDescription plain = {"a", "b", "c", "d", "e", &device, &kernel};
  EXPECT_EQ(asked(plain, RT_INTERFACE_DEVICE, RT_DEVICE_API_VERSION), &device);
  EXPECT_EQ(asked(plain, RT_INTERFACE_KERNEL, RT_KERNEL_API_VERSION), &kernel);
  EXPECT_EQ(asked(plain, RT_INTERFACE_CAPTURE, RT_CAPTURE_API_VERSION), nullptr);
  PluginDescription records = plain;
  records.capture = &capture;
  EXPECT_EQ(asked(records, RT_INTERFACE_CAPTURE, RT_CAPTURE_API_VERSION), &capture);
  EXPECT_EQ(asked(records, RT_INTERFACE_CAPTURE, RT_CAPTURE_API_VERSION + 1), nullptr);
}

struct KnowsHost {
  const rt_host* host;
};

TEST(Plugin, HasItsOwnTextsAndKeysAndAStateThatKnowsTheHost) {
  static constexpr rt_option_spec key = {sizeof(key), RT_OPTION_BOOLEAN, "key", "true", "a key"};
  static constexpr const rt_option_spec* keys[] = {&key};
  const rt_host host{};
  const rt_plugin* const plugin = plugin_of<KnowsHost>({.name = "a",
                                                        .vendor = "b",
                                                        .version = "1",
                                                        .build_id = "2",
                                                        .description = "c",
                                                        .options = keys},
                                                       &host);
  EXPECT_STREQ(plugin->version, "1");
  EXPECT_STREQ(plugin->build_id, "2");
  uint32_t count = 0;
  EXPECT_EQ(plugin->options(plugin->self, &count), keys);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(state_of<KnowsHost>(plugin->self).host, &host);
  plugin->shutdown(plugin->self);
}

}  // namespace
}  // namespace rt::sdk
