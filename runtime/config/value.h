// A parsed TOML document, independent of the parser. Every value and every key knows where it was
// written.
#ifndef RUNTIME_CONFIG_VALUE_H_
#define RUNTIME_CONFIG_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace runtime::config {

// Where a value was written. Line and column count from 1, and all values of a file share its name.
// A value of the command line has line 0, and what the user wrote as its file: "--set
// optimizer.lr".
struct Position {
  std::shared_ptr<const std::string> file;
  int line = 1;
  int column = 1;
  std::string text() const;  // "lenet.toml:12:9"; without a line only the file
};

struct Member;

// One value of a document; `kind` says which of the members below holds it.
struct Value {
  enum class Kind { kString, kInteger, kNumber, kBoolean, kDate, kArray, kTable };
  Kind kind = Kind::kTable;
  Position position;
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;
  std::string string;
  std::vector<Value> items;     // of a kArray
  std::vector<Member> members;  // of a kTable; keys are unique

  bool is(Kind wanted) const { return kind == wanted; }
  // The number that a kInteger or a kNumber is.
  double as_number() const { return is(Kind::kInteger) ? static_cast<double>(integer) : number; }
  const Member* find(std::string_view key) const;  // nullptr: there is no such key
  Member* find(std::string_view key);
  void remove(std::string_view key);
};

// One key of a table with its value.
struct Member {
  std::string key;
  Position position;  // of the key
  Value value;
};

// Returns a value as messages show it: `string "abc"`, `integer 5`, `table`. Long strings are cut
// by shorten().
std::string describe(const Value& value);
// Returns at most 60 bytes of the text, cut between two characters of UTF-8, and then "...".
std::string shorten(std::string_view text);

// Throws ConfigurationError("file:line:column: key: message"); an empty key is left out.
[[noreturn]] void fail(const Position& position, std::string_view key, const std::string& message);
// Does the same for a value of `key` that is not what is expected: "wrong value: got <value>,
// expected <expected>".
[[noreturn]] void fail_wrong(const Value& value, std::string_view key, const std::string& expected);

// Parses a whole document; `file` is used in messages only. Throws ConfigurationError for a text
// above kMaxTextBytes, for values nested deeper than kMaxDepth, for a key of kMaxKeyParts dots or
// more, and for everything that TOML forbids (among it duplicate keys and bad UTF-8).
Value parse_toml(std::string_view text, const std::string& file);

// Limits of parse_toml().
inline constexpr size_t kMaxTextBytes = size_t{1} << 20;
inline constexpr int kMaxDepth = 64;     // brackets; a nested layer takes two
inline constexpr int kMaxKeyParts = 16;  // names joined by dots: a.b.c has 3

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_VALUE_H_
