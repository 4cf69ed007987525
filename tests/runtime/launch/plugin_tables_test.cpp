// Checks keys of plugins in the right, the wrong and an unknown section.
#include "runtime/launch/plugin_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"

namespace runtime::launch {
namespace {

using plugins::host::PluginDescription;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

PluginDescription plugin(const std::string& name, const std::string& interface,
                         const std::string& key) {
  PluginDescription p;
  p.name = name;
  p.interfaces = {interface};
  p.options.emplace_back();
  p.options.back().key = key;
  return p;
}

const std::vector<PluginDescription> kInstalled = {
    plugin("fast", RT_INTERFACE_DEVICE, "speed"), plugin("net", RT_INTERFACE_COMMUNICATOR, "ring")};

std::string fault(const config::Config& config) {
  try {
    check_plugin_tables(config, kInstalled);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

TEST(PluginTables, HaveTheKeysThatThePluginDeclares) {
  config::Config config;
  config.device.options = {{"fast", {{"speed", "1"}}}};
  config.comm.options = {{"net", {{"ring", "on"}}}};
  EXPECT_THAT(check_plugin_tables(config, kInstalled), IsEmpty());
  config.device.options["fast"]["sped"] = "1";
  EXPECT_THAT(fault(config), AllOf(HasSubstr("device.fast.sped = 1: the plugin has no such key"),
                                   HasSubstr("did you mean \"speed\"?")));
}

TEST(PluginTables, AreOfTheSectionInWhichThePluginHasKeys) {
  config::Config config;
  config.device.options = {{"net", {{"ring", "on"}}}};
  EXPECT_THAT(fault(config), HasSubstr("it has comm.net.ring"));
  config.device.options.clear();
  config.dataset.options = {{"fast", {{"speed", "1"}}}};
  EXPECT_THAT(fault(config), HasSubstr("it has device.fast.speed"));
  EXPECT_EQ(section_of_keys(kInstalled[0]), "device");
  EXPECT_EQ(section_of_keys(kInstalled[1]), "comm");
}

TEST(PluginTables, OfAPluginThatIsNotInstalledAreNamed) {
  config::Config config;
  config.device.options = {{"fasst", {{"speed", "1"}}}};
  EXPECT_THAT(check_plugin_tables(config, kInstalled),
              ElementsAre(AllOf(HasSubstr("[device.fasst] is not used"),
                                HasSubstr("did you mean \"fast\"?"))));
}

}  // namespace
}  // namespace runtime::launch
