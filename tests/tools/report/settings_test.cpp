// Checks flattened configurations and their differences.
#include "tools/report/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/error.h"
#include "tests/tools/report/files.h"

namespace tools::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Settings, KeysHaveTheirSections) {
  const test::Folder folder;
  const Settings s = read_settings(folder.write("config.toml", R"(
[optimizer]
lr = 0.2
betas = [0.9, 0.999]
name = "sgd"
[model]
layers = [ { type = "linear", features = 3 }, { type = "relu" } ]
[device]
graph_capture = true
threads = 4
)"));
  EXPECT_EQ(s.find("optimizer.lr"), "0.2");
  EXPECT_EQ(s.find("optimizer.betas"), "[0.9, 0.999]");
  EXPECT_EQ(s.find("optimizer.name"), "\"sgd\"");
  EXPECT_EQ(s.find("model.layers[0]"), "{ features = 3, type = \"linear\" }");
  EXPECT_EQ(s.find("device.graph_capture"), "true");
  EXPECT_EQ(s.number("device.threads"), 4);
  EXPECT_EQ(s.find("nothing"), "");
  EXPECT_TRUE(std::isnan(s.number("optimizer.name")));
}

TEST(Settings, ABrokenFileIsNamed) {
  const test::Folder folder;
  const auto file = folder.write("config.toml", "[a\n");
  EXPECT_THAT(test::message_of<runtime::ConfigurationError>([&] { read_settings(file); }),
              HasSubstr("config.toml:1"));
  EXPECT_THAT(
      test::message_of<runtime::DataError>([&] { read_settings(folder.path() / "none.toml"); }),
      HasSubstr("none.toml: cannot be read"));
}

TEST(Settings, OnlyDifferencesAreListed) {
  const Settings a({{"x", "1"}, {"y", "2"}, {"only", "3"}});
  const Settings b({{"x", "1"}, {"y", "5"}});
  const Settings unknown;
  EXPECT_THAT(differing_keys({&a, &b}), ElementsAre("y", "only"));
  EXPECT_THAT(differing_keys({&a, &a}), testing::IsEmpty());
  EXPECT_THAT(differing_keys({&a, &unknown}), testing::IsEmpty());
}

TEST(Settings, ChangedKeysAreThoseThatAreNotTheDefault) {
  const Settings defaults = default_settings();
  EXPECT_EQ(defaults.find("optimizer.name"), "\"sgd\"");
  EXPECT_THAT(changed_keys(defaults, defaults), testing::IsEmpty());
  const Settings run({{"optimizer.name", "\"sgd\""}, {"optimizer.momentum", "0.25"}});
  EXPECT_THAT(changed_keys(run, defaults), testing::ElementsAre("optimizer.momentum"));
}

}  // namespace
}  // namespace tools::report
