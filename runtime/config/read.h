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

// Refuses a member of `table` that is not in `keys`, and names the nearest key.
void check_known(const Value& table, const std::vector<Key>& keys, const std::string& path);

// Converts a value that check_value() has accepted.
Init read_init(const Value& value);
// Checks and converts a list of layers, with all layers nested in it.
std::vector<Layer> read_layers(const Value& value, const std::string& path);

// Returns the number of layers with every `repeat` written out, but at most kMaxLayers + 1.
int64_t expanded_size(const std::vector<Layer>& layers);
inline constexpr int64_t kMaxLayers = 10000;  // layers of a model, with every `repeat` written out

// Converts every section of a merged document; keys that it does not give have their defaults.
Config read_config(const Value& root);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_READ_H_
