// The list of every section, key and layer type. The parser, the check for unknown keys, the JSON
// schema, the comments of `config show` and the reference in configs/README.md all come from it.
#ifndef RUNTIME_CONFIG_SCHEMA_H_
#define RUNTIME_CONFIG_SCHEMA_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace runtime::config {

struct Config;
struct DatasetInput;
struct Init;
struct Layer;
struct OpenOperation;
struct OptimizerGroup;

// The member of a Config that holds the value of a key: one pointer for each type of a member.
using Field =
    std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, std::vector<int64_t>*,
                 std::vector<double>*, std::vector<std::string>*, Init*, std::vector<Layer>*,
                 std::vector<OptimizerGroup>*, std::vector<DatasetInput>*>;

// The type of a key's value.
enum class Type {
  kBoolean,
  kInteger,
  kIntegerOrAuto,   // "auto" is stored as 0
  kIntegersOrAuto,  // a list or one integer; "auto" is the empty list
  kNumber,
  kString,
  kPath,      // relative in the file to its folder; absolute after loading
  kDataPath,  // as kPath if the file exists there; otherwise kept relative, and runtime/data
              // searches for it
  kIntegers,
  kNumbers,
  kStrings,
  kPaths,
  kInit,
  kPair,     // an integer for both, or [h, w]; stored as key_h and key_w
  kPadding,  // as kPair, or "same"
  kLayers,
  kTables,  // a list of tables with the keys Key::item_keys
};

// The numbers that a key may have. A bound belongs to the range unless it is open.
struct Range {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool open_minimum = false;          // `minimum` itself is refused
  bool open_maximum = false;          // `maximum` itself is refused
  bool contains(double value) const;  // false for NaN
  // Returns "at least 1" or "at least 0, below 1"; "" if there is no bound.
  std::string text() const;
};

// One key of a section or of a layer type.
struct Key {
  std::string name;
  Type type = Type::kString;
  std::string default_text = {};  // as in TOML; "": no default (see `required`)
  bool required = false;
  Range range = {};                       // of the number, or of each item of a list
  std::vector<std::string> choices = {};  // of a string; empty: any string
  bool or_of_plugin = false;              // or "<plugin>.<name>", besides the choices
  size_t max_items = 1024;                // of a list
  std::string documentation = {};         // shown to users
  std::vector<Key> item_keys = {};        // of each table of kTables
  bool brief = false;  // of a layer: left out of resolved configurations where it has its default
  // Returns the key's member; empty for keys of layers and for `extends`. The key's type and
  // default are those of this member.
  std::function<Field(Config&)> field = {};
};

// One section of the file, [name].
struct Section {
  std::string name;
  std::string documentation;
  std::vector<Key> keys;
};

// One type of layer in model.layers. runtime/model has the table of all types.
struct LayerType {
  std::string name;
  std::string documentation;
  std::vector<Key> keys;  // without "type"
  // Throws ConfigurationError, at the position of a key, if keys of the layer do not fit together.
  // `path` is the layer as messages show it. May be empty.
  std::function<void(const Layer& layer, const std::string& path)> check;
  std::shared_ptr<const OpenOperation> operation = {};  // of a plugin's type; else null
};
using LayerTypes = std::vector<LayerType>;

// Two keys of which one file may give only one. If a later document (a file that extends, or --set)
// gives the other one, that key replaces the first.
struct Exclusive {
  std::string section, first, second;
};

// The lists below are constant and live as long as the program; any thread may read them.
const std::vector<Section>& sections();
const std::vector<Exclusive>& exclusives();
// The one key outside of sections.
const Key& extends_key();

// The find functions return the entry with this name, or nullptr.
const Section* find_section(std::string_view name);
const Key* find_key(const std::vector<Key>& keys, std::string_view name);
// Returns whether the section may have tables of plugins: [device.<plugin>], [comm.<plugin>],
// [dataset.<plugin>], [optimizer.<plugin>].
bool has_plugin_tables(std::string_view section);

// Returns whether `text` has the form "<plugin>.<name>"; both are [a-z][a-z0-9_]*.
bool names_of_plugin(std::string_view text);

// Returns the type and range of a value: `integer, at least 1`, `one of "drop", "pad", "keep"`.
std::string describe_type(const Key& key);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_SCHEMA_H_
