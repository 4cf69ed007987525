// Finds sections and keys by name, and derives types from the members that keys name.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/config/declare.h"
#include "runtime/config/format.h"
#include "runtime/config/toml_text.h"

namespace runtime::config {
namespace {

std::string bound(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e18;
  return whole ? std::to_string(static_cast<int64_t>(value)) : toml_number(value);
}

// Messages and documents call a type so.
struct TypeName {
  Type type;
  const char* text;
};
constexpr TypeName kTypeNames[] = {{Type::kBoolean, "true or false"},
                                   {Type::kInteger, "integer"},
                                   {Type::kIntegerOrAuto, "integer or \"auto\""},
                                   {Type::kIntegersOrAuto, "integer, list of integers or \"auto\""},
                                   {Type::kNumber, "number"},
                                   {Type::kString, "string"},
                                   {Type::kPath, "path"},
                                   {Type::kDataPath, "path"},
                                   {Type::kIntegers, "list of integers"},
                                   {Type::kNumbers, "list of numbers"},
                                   {Type::kStrings, "list of strings"},
                                   {Type::kPaths, "list of paths"},
                                   {Type::kInit, "name or { kind = value }"},
                                   {Type::kPair, "integer or [h, w]"},
                                   {Type::kPadding, "integer, [h, w] or \"same\""},
                                   {Type::kTables, "list of tables"},
                                   {Type::kLayers, "list of layers"}};
static_assert(std::size(kTypeNames) == static_cast<size_t>(Type::kTables) + 1, "each has a row");

std::string type_text(Type type) {
  return std::ranges::find(kTypeNames, type, &TypeName::type)->text;
}

std::string quoted_choices(const std::vector<std::string>& choices) {
  std::string result;
  for (const std::string& choice : choices) {
    if (choice.empty()) continue;  // stands for "not given"
    result += (result.empty() ? "" : ", ") + toml_string(choice);
  }
  return result;
}

// The type of a member, by the alternative of Field.
Type type_of_member(const bool*) { return Type::kBoolean; }
Type type_of_member(const double*) { return Type::kNumber; }
Type type_of_member(const std::string*) { return Type::kString; }
Type type_of_member(const Init*) { return Type::kInit; }
Type type_of_member(const std::vector<int64_t>*) { return Type::kIntegers; }
Type type_of_member(const std::vector<double>*) { return Type::kNumbers; }
Type type_of_member(const std::vector<std::string>*) { return Type::kStrings; }
Type type_of_member(const std::vector<Layer>*) { return Type::kLayers; }
Type type_of_member(const std::vector<OptimizerGroup>*) { return Type::kTables; }
Type type_of_member(const std::vector<DatasetInput>*) { return Type::kTables; }
template <std::integral Integer>
Type type_of_member(const Integer*) {
  return Type::kInteger;
}

}  // namespace

Type type_of(const Field& field) {
  return std::visit([](const auto* member) { return type_of_member(member); }, field);
}

std::string default_text(const Field& field, Type type) {
  const std::string text = std::visit(
      [](const auto* member) -> std::string {
        if constexpr (std::is_same_v<decltype(member), const std::vector<Layer>*>)
          return "";  // no layers: the file gives them, or a preset
        else if constexpr (std::is_same_v<decltype(member), const std::vector<OptimizerGroup>*> ||
                           std::is_same_v<decltype(member), const std::vector<DatasetInput>*>)
          return "[]";
        else
          return toml_text(*member);
      },
      field);
  const bool is_auto = (type == Type::kIntegerOrAuto && text == "0") ||
                       (type == Type::kIntegersOrAuto && text == "[]");
  return is_auto ? "\"auto\"" : text;
}

bool Range::contains(double value) const {
  const bool above = open_minimum ? value > minimum : value >= minimum;
  const bool below = open_maximum ? value < maximum : value <= maximum;
  return above && below;
}

std::string Range::text() const {
  if (std::isinf(minimum) && std::isinf(maximum)) return "";
  std::string least = (open_minimum ? "above " : "at least ") + bound(minimum);
  if (std::isinf(maximum)) return least;
  return least + ", " + (open_maximum ? "below " : "at most ") + bound(maximum);
}

bool has_plugin_tables(std::string_view section) {
  return section == "device" || section == "comm" || section == "dataset" || section == "optimizer";
}

bool names_of_plugin(std::string_view text) {
  const auto is_name = [](std::string_view name) {
    return !name.empty() && name[0] >= 'a' && name[0] <= 'z' &&
           name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == name.npos;
  };
  const size_t dot = text.find('.');
  return dot != text.npos && is_name(text.substr(0, dot)) && is_name(text.substr(dot + 1));
}

const Section* find_section(std::string_view name) { return find_choice(sections(), name); }
const Key* find_key(const std::vector<Key>& keys, std::string_view name) {
  return find_choice(keys, name);
}

std::string describe_type(const Key& key) {
  if (!key.choices.empty()) {
    return "one of " + quoted_choices(key.choices) +
           (key.or_of_plugin ? " or \"<plugin>.<name>\"" : "");
  }
  const std::string range = key.range.text();
  return type_text(key.type) + (range.empty() ? "" : ", " + range);
}

}  // namespace runtime::config
