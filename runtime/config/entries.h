// A configuration key by key, for those who compare or show it.
#ifndef RUNTIME_CONFIG_ENTRIES_H_
#define RUNTIME_CONFIG_ENTRIES_H_

#include <string>
#include <vector>

#include "runtime/config/config.h"

namespace runtime::config {

// One key with its value, as TOML writes both.
struct Entry {
  std::string key;  // "optimizer.lr"; "model.layers[0]" for a table in a list
  std::string value;
};

// Returns the keys of a text of TOML in their order. `name`: for the message of the
// ConfigurationError that it throws if the text is no TOML.
std::vector<Entry> entries(const std::string& toml, const std::string& name);
// Those of a resolved configuration.
std::vector<Entry> entries(const Config& config);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_ENTRIES_H_
