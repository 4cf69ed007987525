// The schema, the typed fields, the JSON schema and the reference document agree.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "runtime/config/config.h"
#include "runtime/config/reference.h"
#include "runtime/config/schema.h"
#include "tests/runtime/config/support.h"

namespace runtime::config::test {
namespace {

using nlohmann::json;

// No two keys share a member, and a member can hold every number of its key's range.
TEST(Document, EveryKeyHasAMemberOfItsOwn) {
  Config config;
  std::set<const void*> members;
  for (const Section& section : sections()) {
    for (const Key& key : section.keys) {
      const Field field = key.field(config);
      const auto address = [](auto* member) { return static_cast<const void*>(member); };
      EXPECT_TRUE(members.insert(std::visit(address, field)).second) << key.name;
      if (std::holds_alternative<int*>(field)) {
        EXPECT_LE(key.range.maximum, std::numeric_limits<int>::max()) << key.name;
      }
      EXPECT_FALSE(key.documentation.empty()) << key.name;
    }
  }
  EXPECT_GT(members.size(), 90u);
}

// Each default of the schema, given explicitly, changes nothing.
TEST(Document, DefaultsOfTheSchemaChangeNothing) {
  std::string text;
  for (const Section& section : sections()) {
    text += "[" + section.name + "]\n";
    for (const Key& key : section.keys) {
      const bool exclusive =
          std::any_of(exclusives().begin(), exclusives().end(), [&](const Exclusive& pair) {
            return pair.section == section.name &&
                   (pair.first == key.name || pair.second == key.name);
          });
      if (!key.default_text.empty() && !exclusive)
        text += key.name + " = " + key.default_text + "\n";
    }
    if (section.name == "dataset") text += "name = \"fashion_mnist\"\n";
    if (section.name == "model") text += "preset = \"lenet\"\n";
    if (section.name == "training") text += "global_batch_size = 8\n";
  }
  EXPECT_EQ(to_toml(read(text)), to_toml(read(kWhole)));
}

TEST(Document, JsonSchemaCoversEverySectionKeyAndLayer) {
  const json schema = json::parse(json_schema(model::layer_types()));
  EXPECT_EQ(schema.at("$schema"), "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema.at("additionalProperties"), false);
  for (const Section& section : sections()) {
    const json& properties = schema.at("properties").at(section.name).at("properties");
    EXPECT_EQ(properties.size(), section.keys.size());
    for (const Key& key : section.keys) {
      EXPECT_EQ(properties.at(key.name).at("description"), key.documentation);
    }
  }
  const json& layers = schema.at("$defs").at("layer").at("oneOf");
  ASSERT_EQ(layers.size(), model::layer_types().size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const json& properties = layers[i].at("properties");
    EXPECT_EQ(properties.at("type").at("const"), model::layer_types()[i].name);
    EXPECT_EQ(properties.size(), model::layer_types()[i].keys.size() + 1);
  }
}

TEST(Document, JsonSchemaRefersOnlyToWhatItDefines) {
  const json schema = json::parse(json_schema(model::layer_types()));
  std::set<std::string> references;
  const auto collect = [&](const auto& self, const json& node) -> void {
    if (node.is_object() && node.contains("$ref")) references.insert(node.at("$ref"));
    for (const json& child : node) {
      if (child.is_structured()) self(self, child);
    }
  };
  collect(collect, schema);
  EXPECT_EQ(references,
            (std::set<std::string>{"#/$defs/init", "#/$defs/layer", "#/$defs/open_layer"}));
  EXPECT_TRUE(schema.at("$defs").contains("init"));
}

TEST(Document, ReadmeHoldsTheReferenceOfTheSchema) {
  std::stringstream readme;
  readme << std::ifstream(CONFIGS_FOLDER "/README.md").rdbuf();
  const std::string text = readme.str();
  const size_t at = text.find(kReferenceMark);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(text.substr(at + std::string(kReferenceMark).size()),
            reference_markdown(model::layer_types()))
      << "configs/README.md is out of date: build the target update_config_reference";
}

TEST(Document, ResolvedFileExplainsEveryKey) {
  const std::string text = to_toml(read(kWhole));
  for (const Section& section : sections()) {
    EXPECT_NE(text.find("[" + section.name + "]"), std::string::npos) << section.name;
  }
  EXPECT_NE(text.find("# learning rate before the schedule\nlr = 0.01\n"), std::string::npos);
}

}  // namespace
}  // namespace runtime::config::test
