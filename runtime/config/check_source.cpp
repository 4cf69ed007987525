// Refuses unknown sections and keys, and keys that exclude each other, before files are merged.
#include "runtime/config/check_source.h"

#include "plugins/host/nearest.h"
#include "runtime/config/read.h"
#include "runtime/config/schema.h"

namespace runtime::config {
namespace {

using Kind = Value::Kind;

constexpr size_t kMaxPlugins = 64;   // tables of plugins in a section
constexpr size_t kMaxOptions = 256;  // keys in one of these tables

std::string listed_sections() {
  std::string result;
  for (const std::string& name : names_of_rows(sections())) {
    result += (result.empty() ? "[" : ", [") + name + "]";
  }
  return result;
}

[[noreturn]] void refuse_section(const Member& member) {
  const std::string name = "[" + shorten(member.key) + "]";
  const std::string near = plugins::host::nearest_name(member.key, names_of_rows(sections()));
  fail(member.position, "",
       "unknown section " + name + (near.empty() ? "" : ", did you mean [" + near + "]?") +
           "; known: " + listed_sections());
}

void check_with_plugins(const Value& table, const Section& section) {
  Value keys;
  size_t plugins = 0;
  for (const Member& member : table.members) {
    if (!member.value.is(Kind::kTable) || find_key(section.keys, member.key) != nullptr) {
      keys.members.push_back({member.key, member.position, {}});
    } else if (++plugins > kMaxPlugins || member.value.members.size() > kMaxOptions) {
      fail(member.position, section.name + "." + shorten(member.key),
           "too many plugin keys; expected at most " + std::to_string(kMaxPlugins) + " tables of " +
               std::to_string(kMaxOptions));
    }
  }
  check_known(keys, section.keys, section.name);
}

void check_section(const Member& member) {
  const Section* section = find_section(member.key);
  if (section == nullptr) refuse_section(member);
  if (!member.value.is(Kind::kTable)) {
    fail(
        member.position, member.key,
        "wrong value: got " + describe(member.value) + ", expected a section [" + member.key + "]");
  }
  if (has_plugin_tables(member.key)) return check_with_plugins(member.value, *section);
  check_known(member.value, section->keys, section->name);
}

}  // namespace

void check_source(const Value& root) {
  for (const Member& member : root.members) {
    if (member.key != extends_key().name) check_section(member);
  }
  for (const Exclusive& pair : exclusives()) {
    const Member* section = root.find(pair.section);
    if (section == nullptr) continue;
    const Member* first = section->value.find(pair.first);
    const Member* second = section->value.find(pair.second);
    if (first == nullptr || second == nullptr) continue;
    fail(second->position, pair.section + "." + pair.second,
         "both " + pair.first + " and " + pair.second + " are given, expected one of them; " +
             "remove the one that is not meant");
  }
}

}  // namespace runtime::config
