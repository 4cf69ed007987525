// Converts settings between TOML, JSON and arguments.
#include "tools/trials/settings.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace tools::trials {

namespace {

using runtime::config::Value;
using Kind = Value::Kind;

std::string section_of(const std::string& key) { return key.substr(0, key.rfind('.')); }
std::string name_of(const std::string& key) { return key.substr(key.rfind('.') + 1); }

}  // namespace

Json to_json(const Value& value) {
  Json json;
  switch (value.kind) {
    case Kind::kString:
      return value.string;
    case Kind::kInteger:
      return value.integer;
    case Kind::kBoolean:
      return value.boolean;
    case Kind::kNumber:
      if (std::isfinite(value.number)) return value.number;
      break;
    case Kind::kDate:
      break;
    case Kind::kArray:
      json = Json::array();
      for (const Value& item : value.items) json.push_back(to_json(item));
      return json;
    case Kind::kTable:
      json = Json::object();
      for (const auto& member : value.members) json[member.key] = to_json(member.value);
      return json;
  }
  runtime::config::fail(value.position, "",
                        "wrong value: got " + runtime::config::describe(value) +
                            ", expected a string, a finite number, a boolean, a list or a table");
}

// The escapes of JSON strings are valid in TOML, too.
std::string toml_text(const Json& value) {
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, item] : value.items()) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text += Json(key).dump() + " = ";
    text += toml_text(item);
  }
  return value.is_array() ? "[" + text + "]" : "{ " + text + " }";
}

std::string short_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : toml_text(value);
}

void add_settings(std::vector<std::string>& arguments, const Settings& settings) {
  for (const auto& [key, value] : settings) {
    arguments.emplace_back("--set");
    arguments.push_back(key + "=" + toml_text(value));
  }
}

std::string toml_lines(const Settings& settings) {
  std::vector<std::string> sections;
  std::map<std::string, std::string> lines;
  for (const auto& [key, value] : settings) {
    std::string& text = lines[section_of(key)];
    if (text.empty()) sections.push_back(section_of(key));
    text += name_of(key) + " = " + toml_text(value) + "\n";
  }
  std::string text;
  for (const std::string& section : sections)
    text += (text.empty() ? "[" : "\n[") + section + "]\n" + lines[section];
  return text;
}

double rounded(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*g", digits, value);
  return std::strtod(text, nullptr);
}

}  // namespace tools::trials
