// Reading of checked values into typed fields.
#ifndef RUNTIME_CONFIG_READ_H_
#define RUNTIME_CONFIG_READ_H_

#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/config/schema.h"
#include "runtime/config/value.h"

namespace runtime::config {

// All functions throw ConfigurationError at the position of the value. `path` is the key as the
// message shows it, for example "model.layers[2].kernel".

// Checks a value of the key `key`: its type, its range or its choices, and the number of its items.
void check_value(const Value& value, const Key& key, const std::string& path);

// Returns the default of a key that has one.
Value default_value(const Key& key);

// Returns whether the value of a key of this type is one string: a text or a path.
bool is_string(Type type);

// Refuses a member of `table` that is not in `keys`, and names the nearest key.
void check_known(const Value& table, const std::vector<Key>& keys, const std::string& path);

// Converts a value that check_value() has accepted.
Init read_init(const Value& value);
// Converts a boolean, a number or a string that check_value() has accepted. "auto" arrives as the
// integer 0.
void assign(const Value& value, bool& target);
void assign(const Value& value, double& target);
void assign(const Value& value, std::string& target);
void assign(const Value& value, int64_t& target);
// Checks and converts a list of layers, with all layers nested in it. `types` must outlive them.
std::vector<Layer> read_layers(const Value& value, const std::string& path,
                               const LayerTypes& types);

// Returns the number of layers with every `repeat` written out, but at most kMaxLayers + 1.
int64_t expanded_size(const std::vector<Layer>& layers);
inline constexpr int64_t kMaxLayers = 10000;  // layers of a model, with every `repeat` written out

// Converts every section of a merged document; keys that it does not give have their defaults.
// `optimizers` are those of plugins.
Config read_config(const Value& root, const LayerTypes& types,
                   const std::vector<SharedOperation>& optimizers);

// Whether a layer or an optimizer of the document has a name with a dot, of a plugin.
bool uses_open_types(const Value& root);
// Finds the optimizers of plugins that the rules name, and reads [optimizer.<plugin>].
void read_open_optimizers(const Value& root, const std::vector<SharedOperation>& known,
                          Optimizer& optimizer);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_READ_H_
