// The list of every section, key and layer type. The parser, the check for unknown keys, the JSON
// schema, the comments of `config show` and the reference in configs/README.md come from it.
#ifndef RUNTIME_CONFIG_SCHEMA_H_
#define RUNTIME_CONFIG_SCHEMA_H_

#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace runtime::config {

enum class Type {
  kBoolean,
  kInteger,
  kIntegerOrAuto,   // "auto" is stored as 0
  kIntegersOrAuto,  // a list, or one integer; "auto" is the empty list
  kNumber,
  kString,
  kPath,      // relative to the folder of the file that says it; absolute after loading
  kDataPath,  // the same where the file is there; else it stays relative, to be searched for
  kIntegers,
  kNumbers,
  kStrings,
  kPaths,
  kInit,
  kPair,     // an integer for both, or [h, w]; stored as key_h and key_w
  kPadding,  // as kPair, or "same"
  kLayers,
};

struct Range {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool open_minimum = false;  // the bound itself is refused
  bool open_maximum = false;
  bool contains(double value) const;  // false for NaN
  std::string text() const;           // "at least 1", "in 0..1, without 1"
};

struct Key {
  std::string name;
  Type type = Type::kString;
  std::string default_text = {};  // as in TOML; "" where there is none (see `required`)
  bool required = false;
  Range range = {};                       // of the number, or of each item of a list
  std::vector<std::string> choices = {};  // of a string; empty: any
  size_t max_items = 1024;                // of a list
  std::string documentation = {};
};

struct Section {
  std::string name;
  std::string documentation;
  std::vector<Key> keys;
};

struct LayerType {
  std::string name;
  std::string documentation;
  std::vector<Key> keys;  // own and common ones, without "type"
};

// Two keys that say the same thing in two ways: one file may give one of them, and in a later file
// (extends, --set) the one replaces the other.
struct Exclusive {
  std::string section, first, second;
};

const std::vector<Section>& sections();
const std::vector<LayerType>& layer_types();
const std::vector<Exclusive>& exclusives();
const Key& extends_key();                                // the one key outside of sections
const std::vector<std::string>& unsupported_sections();  // of the wider design, not here yet

const Section* find_section(std::string_view name);  // nullptr: unknown
const LayerType* find_layer_type(std::string_view name);
const Key* find_key(const std::vector<Key>& keys, std::string_view name);
std::vector<std::string> names_of(const std::vector<Section>& all);
std::vector<std::string> names_of(const std::vector<LayerType>& all);
std::vector<std::string> names_of(const std::vector<Key>& keys);

// "integer, at least 1", "one of: drop, pad, keep"
std::string describe_type(const Key& key);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_SCHEMA_H_
