// Writes a tree of values as TOML.
#include "runtime/config/toml_text.h"

#include "runtime/config/format.h"
#include "runtime/config/inits.h"

namespace runtime::config {

std::string toml_text(const std::string& value) { return toml_string(value); }
std::string toml_text(bool value) { return value ? "true" : "false"; }
std::string toml_text(double value) { return toml_number(value); }

std::string toml_text(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kBoolean:
      return toml_text(value.boolean);
    case Value::Kind::kInteger:
      return toml_text(value.integer);
    case Value::Kind::kNumber:
      return toml_text(value.number);
    case Value::Kind::kArray:
      return toml_text(value.items);
    case Value::Kind::kTable: {
      std::string text;
      for (const Member& member : value.members)
        text += (text.empty() ? "{ " : ", ") + member.key + " = " + toml_text(member.value);
      return text + " }";
    }
    default:
      return toml_string(value.string);
  }
}

std::string toml_text(const Init& init) {
  const InitRow* const row = find_choice(inits(), init.kind);
  if (row == nullptr || row->value.empty()) return toml_string(init.kind);
  return std::string("{ ").append(init.kind) + " = " + toml_number(init.value) + " }";
}

}  // namespace runtime::config
