// A parsed TOML document, independent of the parser: every value and every key knows where it was
// written.
#ifndef RUNTIME_CONFIG_VALUE_H_
#define RUNTIME_CONFIG_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/config.h"

namespace runtime::config {

// A Location that shares the file name with all values of the file.
struct Position {
  std::shared_ptr<const std::string> file;
  int line = 1;
  int column = 1;
  Location location() const;
};

struct Member;

struct Value {
  enum class Kind { kString, kInteger, kNumber, kBoolean, kDate, kArray, kTable };
  Kind kind = Kind::kTable;
  Position position;
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;
  std::string string;
  std::vector<Value> items;     // kArray
  std::vector<Member> members;  // kTable; keys are unique

  bool is(Kind wanted) const { return kind == wanted; }
  const Member* find(std::string_view key) const;  // nullptr: no such key
  Member* find(std::string_view key);
  void remove(std::string_view key);
};

struct Member {
  std::string key;
  Position position;  // of the key
  Value value;
};

// For messages: `string "abc"`, `integer 5`, `table`; long strings are cut.
std::string describe(const Value& value);
std::string shorten(std::string_view text);

// Throws ConfigurationError("file:line:column: key: message"). An empty key is left out.
[[noreturn]] void fail(const Position& position, std::string_view key, const std::string& message);

// Parses a whole document. `file` is used in messages only. Throws ConfigurationError for a text
// above 1 MiB, one that is nested deeper than kMaxDepth or whose keys have more than
// kMaxKeyParts parts, and for whatever TOML forbids (duplicate keys and bad UTF-8 too).
Value parse_toml(std::string_view text, const std::string& file);

inline constexpr size_t kMaxTextBytes = size_t{1} << 20;
inline constexpr int kMaxDepth = 64;     // brackets; a nested layer takes two
inline constexpr int kMaxKeyParts = 16;  // a.b.c has 3

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_VALUE_H_
