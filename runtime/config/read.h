// From checked values to typed fields.
#ifndef RUNTIME_CONFIG_READ_H_
#define RUNTIME_CONFIG_READ_H_

#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/config/schema.h"
#include "runtime/config/value.h"

namespace runtime::config {

// Each throws ConfigurationError at the value's position; `path` is the key as the message shows
// it, "model.layers[2].kernel".

// Type, range, choices and number of items of a value whose key is `key`.
void check_value(const Value& value, const Key& key, const std::string& path);

// Refuses members of `table` that are not in `keys`, with the nearest one.
void check_known(const Value& table, const std::vector<Key>& keys, const std::string& path);

Init read_init(const Value& value);                                           // after check_value
std::vector<Layer> read_layers(const Value& value, const std::string& path);  // checks too

// Number of layers with all `repeat`s written out; at most kMaxLayers + 1.
int64_t expanded_size(const std::vector<Layer>& layers);
inline constexpr int64_t kMaxLayers = 10000;

// Every section of a merged document.
Config read_config(const Value& root);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_READ_H_
