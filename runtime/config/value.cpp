// Finds members of tables, and throws errors with their line and column.
#include "runtime/config/value.h"

#include <algorithm>

#include "runtime/config/format.h"
#include "runtime/error.h"

namespace runtime::config {

std::string Position::text() const {
  std::string name = file ? *file : std::string();
  if (line == 0) return name;
  return name + ":" + std::to_string(line) + ":" + std::to_string(column);
}

const Member* Value::find(std::string_view key) const {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const Member& member) { return member.key == key; });
  return found == members.end() ? nullptr : &*found;
}

Member* Value::find(std::string_view key) {
  return const_cast<Member*>(static_cast<const Value*>(this)->find(key));
}

void Value::remove(std::string_view key) {
  std::erase_if(members, [&](const Member& member) { return member.key == key; });
}

std::string shorten(std::string_view text) {
  constexpr size_t kShown = 60;
  if (text.size() <= kShown) return std::string(text);
  size_t end = kShown;
  // moves back to the first byte of a character
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string describe(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kString:
      return "string " + toml_string(shorten(value.string));
    case Value::Kind::kInteger:
      return "integer " + std::to_string(value.integer);
    case Value::Kind::kNumber:
      return "number " + toml_number(value.number);
    case Value::Kind::kBoolean:
      return value.boolean ? "boolean true" : "boolean false";
    case Value::Kind::kDate:
      return "date or time";
    case Value::Kind::kArray:
      return "array of " + std::to_string(value.items.size());
    case Value::Kind::kTable:
      break;
  }
  return "table";
}

void fail(const Position& position, std::string_view key, const std::string& message) {
  std::string text = position.text();
  const std::string name = shorten(key);
  // "--set optimizer.lr" names the key already.
  if (!name.empty() && !(position.line == 0 && text.ends_with(" " + name))) text += ": " + name;
  throw ConfigurationError(text + ": " + message);
}

void fail_wrong(const Value& value, std::string_view key, const std::string& expected) {
  fail(value.position, key, "wrong value: got " + describe(value) + ", expected " + expected);
}

}  // namespace runtime::config
