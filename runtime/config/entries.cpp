// Flattens a document into keys.
#include "runtime/config/entries.h"

#include "runtime/config/toml_text.h"
#include "runtime/config/value.h"

namespace runtime::config {
namespace {

bool is_list_of_tables(const Value& value) {
  return value.is(Value::Kind::kArray) && !value.items.empty() &&
         value.items[0].is(Value::Kind::kTable);
}

void flatten(const Value& value, const std::string& key, std::vector<Entry>& out) {
  if (value.is(Value::Kind::kTable)) {
    for (const Member& m : value.members)
      flatten(m.value, key.empty() ? m.key : key + "." + m.key, out);
  } else if (is_list_of_tables(value)) {
    for (size_t i = 0; i < value.items.size(); ++i)
      out.push_back({key + "[" + std::to_string(i) + "]", toml_text(value.items[i])});
  } else {
    out.push_back({key, toml_text(value)});
  }
}

}  // namespace

std::vector<Entry> entries(const std::string& toml, const std::string& name) {
  std::vector<Entry> list;
  flatten(parse_toml(toml, name), "", list);
  return list;
}

std::vector<Entry> entries(const Config& config) { return entries(to_toml(config), config.name); }

}  // namespace runtime::config
