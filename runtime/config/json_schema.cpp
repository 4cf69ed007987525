// Makes the JSON schema for editors out of the list of keys.
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/config/config.h"
#include "runtime/config/inits.h"
#include "runtime/config/schema.h"

namespace runtime::config {
namespace {

using Json = nlohmann::ordered_json;

Json reference(const char* name) { return {{"$ref", std::string("#/$defs/") + name}}; }

Json bounded(const char* type, const Range& range) {
  Json json = {{"type", type}};
  const bool integer = std::string_view(type) == "integer";
  const auto put = [&](const char* key, double bound) {
    if (integer) {
      json[key] = static_cast<int64_t>(bound);
    } else {
      json[key] = bound;
    }
  };
  if (std::isfinite(range.minimum)) {
    put(range.open_minimum ? "exclusiveMinimum" : "minimum", range.minimum);
  }
  if (std::isfinite(range.maximum)) {
    put(range.open_maximum ? "exclusiveMaximum" : "maximum", range.maximum);
  }
  return json;
}

Json list_of(Json item, size_t minimum, size_t maximum) {
  return {
      {"type", "array"}, {"items", std::move(item)}, {"minItems", minimum}, {"maxItems", maximum}};
}

Json any_of(std::initializer_list<Json> forms) { return {{"anyOf", Json::array_t(forms)}}; }

// The name of what a plugin brings.
Json open_name() {
  return {{"type", "string"}, {"pattern", "^[a-z][a-z0-9_]*\\.[a-z][a-z0-9_]*$"}};
}

Json pair_of(const Key& key) {
  const Json item = bounded("integer", key.range);
  return any_of({item, list_of(item, 2, 2)});
}

Json properties(const std::vector<Key>& keys);
Json tables_of(const Key& key);

Json type_of(const Key& key) {
  Json text = {{"type", "string"}};
  switch (key.type) {
    case Type::kBoolean:
      return {{"type", "boolean"}};
    case Type::kInteger:
      return bounded("integer", key.range);
    case Type::kIntegerOrAuto:
      return any_of({bounded("integer", key.range), {{"const", "auto"}}});
    case Type::kIntegersOrAuto:
      return any_of({list_of(bounded("integer", key.range), 0, key.max_items),
                     bounded("integer", key.range),
                     {{"const", "auto"}}});
    case Type::kNumber:
      return bounded("number", key.range);
    case Type::kIntegers:
      return list_of(bounded("integer", key.range), 0, key.max_items);
    case Type::kNumbers:
      return list_of(bounded("number", key.range), 0, key.max_items);
    case Type::kStrings:
    case Type::kPaths:
      return list_of(text, 0, key.max_items);
    case Type::kInit:
      return reference("init");
    case Type::kPair:
      return pair_of(key);
    case Type::kPadding:
      return any_of({pair_of(key), {{"const", "same"}}});
    case Type::kTables:
      return tables_of(key);
    case Type::kLayers:
      return {{"type", "array"}, {"items", any_of({reference("layer"), reference("open_layer")})}};
    case Type::kString:
    case Type::kPath:
    case Type::kDataPath:
      break;
  }
  return text;
}

Json tables_of(const Key& key) {
  Json required = Json::array();
  for (const Key& item : key.item_keys) {
    if (item.required) required.push_back(item.name);
  }
  const Json table = {{"type", "object"},
                      {"properties", properties(key.item_keys)},
                      {"required", std::move(required)},
                      {"additionalProperties", false}};
  return list_of(table, 0, key.max_items);
}

// Required keys are not marked in sections, because a file may leave them to one that it extends or
// that extends it.
Json property(const Key& key) {
  Json json = type_of(key);
  if (key.or_of_plugin) {
    json = any_of({{{"enum", key.choices}}, open_name()});
  } else if (!key.choices.empty()) {
    json["enum"] = key.choices;
  }
  json["description"] = key.documentation;
  return json;
}

Json properties(const std::vector<Key>& keys) {
  Json json = Json::object();
  for (const Key& key : keys) json[key.name] = property(key);
  return json;
}

Json section_schema(const Section& section) {
  Json json = {{"type", "object"},
               {"description", section.documentation},
               {"properties", properties(section.keys)},
               {"additionalProperties", false}};
  if (has_plugin_tables(section.name)) {
    const Json option = {{"type", Json::array({"string", "number", "boolean"})}};
    json["additionalProperties"] = {{"type", "object"}, {"additionalProperties", option}};
  }
  for (const Exclusive& pair : exclusives()) {
    if (pair.section != section.name) continue;
    const Json both = {{"required", Json::array({pair.first, pair.second})}};
    json["allOf"].push_back({{"not", both}});
  }
  return json;
}

Json layer_schema(const LayerType& type) {
  Json required = Json::array({"type"});
  for (const Key& key : type.keys) {
    if (key.required) required.push_back(key.name);
  }
  Json keys = {{"type", {{"const", type.name}, {"description", type.documentation}}}};
  keys.update(properties(type.keys));
  return {{"type", "object"},
          {"properties", std::move(keys)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

// A layer of a plugin, whose keys the schema cannot know.
Json open_layer_schema() {
  return {{"type", "object"},
          {"properties", {{"type", open_name()}}},
          {"required", Json::array({"type"})}};
}

Json init_schema() {
  Json names = Json::array(), numbers = Json::object();
  for (const InitRow& row : inits()) {
    if (row.value.empty())
      names.push_back(row.name);
    else
      numbers[row.name] = bounded("number", row.range);
  }
  const Json table = {{"type", "object"},
                      {"properties", std::move(numbers)},
                      {"minProperties", 1},
                      {"maxProperties", 1},
                      {"additionalProperties", false}};
  return any_of({{{"enum", std::move(names)}}, table});
}

}  // namespace

std::string json_schema(const LayerTypes& types) {
  Json layers = Json::array();
  for (const LayerType& type : types) layers.push_back(layer_schema(type));
  Json keys = Json::object();
  keys[extends_key().name] = any_of({{{"type", "string"}}, property(extends_key())});
  for (const Section& section : sections()) keys[section.name] = section_schema(section);
  const Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                       {"title", "Configuration of the runtime"},
                       {"type", "object"},
                       {"properties", std::move(keys)},
                       {"additionalProperties", false},
                       {"$defs",
                        {{"init", init_schema()},
                         {"layer", {{"oneOf", layers}}},
                         {"open_layer", open_layer_schema()}}}};
  return schema.dump(2) + "\n";
}

}  // namespace runtime::config
