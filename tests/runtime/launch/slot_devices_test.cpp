// The devices of the ranks of a job that goes on without some of them.
#include "runtime/launch/slot_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "runtime/error.h"
#include "runtime/launch/open_device.h"

namespace runtime::launch {
namespace {

namespace host = plugins::host;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Three simulated devices, which exist while the object does.
class SlotDevicesTest : public testing::Test {
 public:
  ~SlotDevicesTest() override { unsetenv("RUNTIME_SIMULATED_DEVICES"); }

 protected:
  SlotDevicesTest() {
    set_count(3);
    config_.device.backend = "simulated";
    config_.launch.ranks = 3;
    config_.plugins.path = {std::filesystem::path(SIMULATED_PLUGIN).parent_path().string()};
  }

  static void set_count(int count) {
    setenv("RUNTIME_SIMULATED_DEVICES", std::to_string(count).c_str(), 1);
  }
  SlotDevices devices() const {
    return {config_, {}, host::Registry(plugin_search_path(config_), {})};
  }

  config::Config config_;
};

TEST_F(SlotDevicesTest, TheRanksThatAreLeftKeepTheirDevices) {
  EXPECT_THAT(devices().arguments({0, 2}),
              ElementsAre("--set", "launch.ranks=2", "--set",
                          R"(launch.devices=["simulated:simulated:0", "simulated:simulated:2"])",
                          "--set", "parallelism.data=-1"));
}

TEST_F(SlotDevicesTest, IndicesThatAreGivenAreKept) {
  config_.device.index = {2, 1, 0};
  EXPECT_THAT(devices().arguments({0, 2}), Contains("device.index=[2, 0]"));
  config_.device.index = {1};
  EXPECT_THAT(devices().arguments({0, 2}), Not(Contains(HasSubstr("device"))));
}

TEST_F(SlotDevicesTest, ASearchedMeshIsSearchedAgain) {
  config_.parallelism.search = true;
  EXPECT_THAT(devices().arguments({0, 2}), Not(Contains(HasSubstr("parallelism"))));
}

TEST_F(SlotDevicesTest, ADeviceIsBackWhenItIsThere) {
  const SlotDevices slots = devices();
  EXPECT_TRUE(slots.is_back(2));
  set_count(2);
  EXPECT_FALSE(slots.is_back(2));
  EXPECT_TRUE(slots.is_back(1));
  set_count(3);
  EXPECT_TRUE(slots.is_back(2));
}

// Each run says which device it takes; why it does not take others is said by `runtime devices`.
TEST_F(SlotDevicesTest, WhatAutoPassesOverIsNamedWithoutItsReason) {
  set_count(0);
  config_.device.backend = "auto";
  std::string choice;
  choose_device(config_, host::Registry(plugin_search_path(config_), {}), 0, &choice);
  EXPECT_THAT(choice,
              testing::ContainsRegex("; not usable here: .*simulated.* \\(runtime devices "));
  EXPECT_THAT(choice, Not(HasSubstr("no device")));
}

TEST_F(SlotDevicesTest, AStableIdNamesADevice) {
  const host::Registry registry(plugin_search_path(config_), {});
  config_.launch.devices = {"simulated:simulated:1"};
  EXPECT_EQ(choose_device(config_, registry, 0, nullptr).index, 1);
  config_.launch.devices = {"simulated:simulated:7"};
  try {
    choose_device(config_, registry, 0, nullptr);
    FAIL() << "there is no such device";
  } catch (const ConfigurationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"simulated:simulated:7\" is no device"));
  }
}

}  // namespace
}  // namespace runtime::launch
