// Layers and optimizers of plugins in configurations, with tables instead of plugins.
#include <gtest/gtest.h>

#include "runtime/config/open_operation.h"
#include "tests/runtime/config/support.h"

namespace runtime::config {
namespace {

using test::kWhole;
using test::message_of;

SharedOperation optimizer(const std::string& name, const std::string& beta) {
  auto made = std::make_shared<OpenOperation>();
  made->name = "some." + name;
  made->attributes = {{.name = "beta", .type = Type::kNumber, .default_text = beta},
                      {.name = "steps", .type = Type::kInteger, .required = true},
                      {.name = "fast", .type = Type::kBoolean, .default_text = "true"}};
  return made;
}

OpenTypes types() { return {{}, {optimizer("first", "0.5"), optimizer("second", "0.75")}}; }

Config read(const std::string& text, int* asked = nullptr,
            std::vector<std::string>* path = nullptr) {
  return load_text(text, "test", {}, test::presets(), model::layer_types(),
                   [&](const std::vector<std::string>& plugin_path) {
                     if (asked != nullptr) ++*asked;
                     if (path != nullptr) *path = plugin_path;
                     return types();
                   });
}

const std::string kFirst = kWhole + "[optimizer]\nname = \"some.first\"\n";
const std::string kTable = "[optimizer.some]\nsteps = 3\n";

TEST(OpenTypesOfConfigurations, AreAskedForOnlyWhereANameHasADot) {
  int asked = 0;
  read(kWhole, &asked);
  EXPECT_EQ(asked, 0);
  std::vector<std::string> path;
  read(kFirst + kTable + "[plugins]\npath = [\"/one\", \"/two\"]\n", &asked, &path);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(path, (std::vector<std::string>{"/one", "/two"}));
}

TEST(OpenTypesOfConfigurations, AttributesHaveTheirTypesAndDefaults) {
  const Config config = read(kFirst + kTable);
  ASSERT_NE(config.optimizer.operation, nullptr);
  const AttributeValues expected = {{"beta", 0.5}, {"steps", int64_t{3}}, {"fast", int64_t{1}}};
  EXPECT_EQ(config.optimizer.attributes, expected);
  const Config again =
      load_text(to_toml(config), "again", {}, "", model::layer_types(), open_types_of(config));
  EXPECT_EQ(again.optimizer.attributes, expected);
  EXPECT_EQ(to_toml(again), to_toml(config));
}

TEST(OpenTypesOfConfigurations, WrongKeysNameWhatWasExpected) {
  const auto message = [](const std::string& text) { return message_of([&] { read(text); }); };
  const auto has = [](const std::string& text, const std::string& words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  has(message(kFirst), "optimizer.some.steps: missing: some.first needs it; expected integer");
  has(message(kFirst + "[optimizer.some]\nsteps = 1.5\n"), "expected integer");
  has(message(kFirst + kTable + "bta = 1\n"), "did you mean \"beta\"?");
  has(message(kFirst + kTable + "[optimizer.other]\nx = 1\n"), "optimizer.other: is not used");
  has(message(kWhole + kTable), "optimizer.some: is not used");
  has(message(kWhole + "[optimizer]\nname = \"some.fist\"\n"), "did you mean \"some.first\"?");
}

// Both read one table, so a key that it leaves out cannot have two values.
TEST(OpenTypesOfConfigurations, TwoOptimizersOfAPluginMayNotDifferInADefault) {
  const std::string group =
      "[[optimizer.group]]\nname = \"some.second\"\nparameters = [\"*.bias\"]\n";
  const std::string message = message_of([&] { read(kFirst + kTable + group); });
  EXPECT_NE(message.find("optimizer.some.beta: missing: two optimizers have different defaults, "
                         "0.5 and 0.75"),
            std::string::npos)
      << message;
  const Config config = read(kFirst + kTable + "beta = 0.25\n" + group);
  EXPECT_EQ(std::get<double>(config.optimizer.groups[0].attributes.at("beta")), 0.25);
}

}  // namespace
}  // namespace runtime::config
