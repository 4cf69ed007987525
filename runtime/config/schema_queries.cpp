// Finds sections and keys by name, and derives types from the members that keys name.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/config/declare.h"
#include "runtime/config/format.h"
#include "runtime/config/toml_text.h"

namespace runtime::config {
namespace {

template <class Items>
auto find_named(const Items& items, std::string_view name) -> decltype(items.data()) {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.name == name; });
  return found == items.end() ? nullptr : &*found;
}

template <class Items>
std::vector<std::string> names(const Items& items) {
  std::vector<std::string> result;
  for (const auto& item : items) result.push_back(item.name);
  return result;
}

std::string bound(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e18;
  return whole ? std::to_string(static_cast<int64_t>(value)) : toml_number(value);
}

std::string type_text(Type type) {
  switch (type) {
    case Type::kBoolean:
      return "true or false";
    case Type::kInteger:
      return "integer";
    case Type::kIntegerOrAuto:
      return "integer or \"auto\"";
    case Type::kIntegersOrAuto:
      return "integer, list of integers or \"auto\"";
    case Type::kNumber:
      return "number";
    case Type::kString:
      return "string";
    case Type::kPath:
    case Type::kDataPath:
      return "path";
    case Type::kIntegers:
      return "list of integers";
    case Type::kNumbers:
      return "list of numbers";
    case Type::kStrings:
      return "list of strings";
    case Type::kPaths:
      return "list of paths";
    case Type::kInit:
      return "name or { kind = value }";
    case Type::kPair:
      return "integer or [h, w]";
    case Type::kPadding:
      return "integer, [h, w] or \"same\"";
    case Type::kTables:
      return "list of tables";
    case Type::kLayers:
      break;
  }
  return "list of layers";
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
  if (type == Type::kLayers) return "";  // no layers: the file gives them, or a preset
  const std::string text = std::visit(
      [](const auto* member) -> std::string {
        if constexpr (std::is_same_v<decltype(member), const std::vector<Layer>*>)
          return "";
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

const Section* find_section(std::string_view name) { return find_named(sections(), name); }
const LayerType* find_layer_type(const LayerTypes& all, std::string_view name) {
  return find_named(all, name);
}
const Key* find_key(const std::vector<Key>& keys, std::string_view name) {
  return find_named(keys, name);
}
std::vector<std::string> names_of(const std::vector<Section>& all) { return names(all); }
std::vector<std::string> names_of(const LayerTypes& all) { return names(all); }
std::vector<std::string> names_of(const std::vector<Key>& keys) { return names(keys); }

std::string describe_type(const Key& key) {
  if (!key.choices.empty()) {
    return "one of " + quoted_choices(key.choices) +
           (key.or_of_plugin ? " or \"<plugin>.<name>\"" : "");
  }
  const std::string range = key.range.text();
  return type_text(key.type) + (range.empty() ? "" : ", " + range);
}

}  // namespace runtime::config
