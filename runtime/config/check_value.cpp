// Checks a value against the type, range and choices of its key, and words what is wrong.
#include <algorithm>
#include <cmath>

#include "plugins/host/nearest.h"
#include "runtime/config/inits.h"
#include "runtime/config/read.h"

namespace runtime::config {
namespace {

using plugins::host::join_names;
using plugins::host::suggestion;
using Kind = Value::Kind;

// The inits with a number, or those without.
std::vector<std::string> names_of_inits(bool with_number) {
  std::vector<std::string> names;
  for (const InitRow& row : inits()) {
    if (row.value.empty() != with_number) names.push_back(row.name);
  }
  return names;
}

[[noreturn]] void wrong(const Value& value, const Key& key, const std::string& path) {
  fail_wrong(value, path, describe_type(key));
}

void check_number(const Value& value, const Key& key, const std::string& path, bool integer) {
  const bool whole = value.is(Kind::kInteger);
  if (!whole && (integer || !value.is(Kind::kNumber))) wrong(value, key, path);
  const double number = value.as_number();
  if (!std::isfinite(number)) fail_wrong(value, path, "a finite number");
  if (!key.range.contains(number)) {
    fail(value.position, path,
         "out of range: got " + describe(value) + ", expected " + key.range.text());
  }
}

void check_string(const Value& value, const Key& key, const std::string& path) {
  if (value.is(Kind::kArray) || value.is(Kind::kTable)) wrong(value, key, path);
  if (!value.is(Kind::kString))
    fail_wrong(value, path, describe_type(key) + "; put it into quotes");
  const bool control = std::any_of(value.string.begin(), value.string.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t';
  });
  if (control) fail_wrong(value, path, "text without control characters");
  if (key.choices.empty()) return;
  if (std::find(key.choices.begin(), key.choices.end(), value.string) != key.choices.end()) return;
  if (key.or_of_plugin && names_of_plugin(value.string)) return;
  const std::string near = plugins::host::nearest_name(value.string, key.choices);
  fail(value.position, path,
       "unknown choice: got " + describe(value) + ", expected " + describe_type(key) +
           (near.empty() ? "" : ", did you mean \"" + near + "\"?"));
}

template <class CheckItem>
void check_list(const Value& value, const Key& key, const std::string& path, CheckItem check_item) {
  if (!value.is(Kind::kArray)) wrong(value, key, path);
  if (value.items.size() > key.max_items) {
    fail(value.position, path,
         "list too long: got " + std::to_string(value.items.size()) + " items, expected at most " +
             std::to_string(key.max_items));
  }
  for (size_t i = 0; i < value.items.size(); ++i) {
    check_item(value.items[i], key, path + "[" + std::to_string(i) + "]");
  }
}

void check_integer(const Value& value, const Key& key, const std::string& path) {
  check_number(value, key, path, true);
}

void check_pair(const Value& value, const Key& key, const std::string& path) {
  if (!value.is(Kind::kArray)) return check_integer(value, key, path);
  if (value.items.size() != 2) wrong(value, key, path);
  for (const Value& item : value.items) check_integer(item, key, path);
}

void check_init(const Value& value, const std::string& path) {
  const Key names = {.name = "init", .choices = names_of_inits(false)};
  if (value.is(Kind::kString)) return check_string(value, names, path);
  const std::vector<std::string> tables = names_of_inits(true);
  if (!value.is(Kind::kTable) || value.members.size() != 1) {
    fail_wrong(value, path,
               "a name (" + join_names(names.choices) + ") or a table with one of " +
                   join_names(tables) + ", like { normal = 0.01 }");
  }
  const Member& member = value.members.front();
  const InitRow* const row = find_choice(inits(), member.key);
  if (row == nullptr || row->value.empty()) {
    fail(member.position, path,
         "unknown key \"" + shorten(member.key) + "\"" + suggestion(member.key, tables));
  }
  const Key number = {.name = member.key, .type = Type::kNumber, .range = row->range};
  check_number(member.value, number, path + "." + member.key, false);
}

void check_table(const Value& table, const Key& key, const std::string& path) {
  if (!table.is(Kind::kTable)) {
    fail_wrong(table, path, "a table with the keys " + join_names(names_of_rows(key.item_keys)));
  }
  check_known(table, key.item_keys, path);
  for (const Key& item : key.item_keys) {
    const std::string of_item = path + "." + item.name;
    if (const Member* member = table.find(item.name)) {
      check_value(member->value, item, of_item);
    } else if (item.required) {
      fail(table.position, of_item, "missing: it has no default; expected " + describe_type(item));
    }
  }
}

}  // namespace

void check_value(const Value& value, const Key& key, const std::string& path) {
  switch (key.type) {
    case Type::kBoolean:
      if (!value.is(Kind::kBoolean)) wrong(value, key, path);
      return;
    case Type::kInteger:
      return check_integer(value, key, path);
    case Type::kIntegerOrAuto:
      if (value.is(Kind::kString) && value.string == "auto") return;
      return check_integer(value, key, path);
    case Type::kIntegersOrAuto:
      if (value.is(Kind::kString) && value.string == "auto") return;
      if (!value.is(Kind::kArray)) return check_integer(value, key, path);
      return check_list(value, key, path, check_integer);
    case Type::kNumber:
      return check_number(value, key, path, false);
    case Type::kString:
    case Type::kPath:
    case Type::kDataPath:
      return check_string(value, key, path);
    case Type::kIntegers:
      return check_list(value, key, path, check_integer);
    case Type::kNumbers:
      return check_list(value, key, path,
                        [](const Value& item, const Key& k, const std::string& p) {
                          check_number(item, k, p, false);
                        });
    case Type::kStrings:
    case Type::kPaths:
      return check_list(value, key, path, check_string);
    case Type::kInit:
      return check_init(value, path);
    case Type::kPair:
      return check_pair(value, key, path);
    case Type::kPadding:
      if (value.is(Kind::kString) && value.string == "same") return;
      return check_pair(value, key, path);
    case Type::kTables:
      return check_list(value, key, path, check_table);
    case Type::kLayers:
      if (!value.is(Kind::kArray)) wrong(value, key, path);
      return;
  }
}

bool is_string(Type type) {
  return type == Type::kString || type == Type::kPath || type == Type::kDataPath;
}

void check_known(const Value& table, const std::vector<Key>& keys, const std::string& path) {
  for (const Member& member : table.members) {
    if (find_key(keys, member.key) != nullptr) continue;
    fail(member.position, path + "." + shorten(member.key),
         "unknown key" + suggestion(member.key, names_of_rows(keys)));
  }
}

Init read_init(const Value& value) {
  if (value.is(Kind::kString)) return {value.string, 0};
  const Member& member = value.members.front();
  return {member.key, member.value.as_number()};
}

}  // namespace runtime::config
