// One layer of [model] as it is written in the file.
#ifndef RUNTIME_CONFIG_LAYER_H_
#define RUNTIME_CONFIG_LAYER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/config/value.h"

namespace runtime::config {

struct LayerType;

// How initial values are drawn: `kind` is a row of inits(), `value` the argument of those that have
// one.
struct Init {
  std::string kind = "default";
  double value = 0;
  bool is_default() const { return kind == "default"; }
  bool operator==(const Init&) const = default;
};

// A layer as written, checked against the keys of its type.
struct Layer {
  const LayerType* type = nullptr;  // an item of the table that the loader was given
  std::string name;                 // "" if not given
  int64_t repeat = 1;
  // By key: what the file says, or else the default. Keys that have neither are missing.
  std::map<std::string, Value> values;
  // By key: the layers inside of this one.
  std::map<std::string, std::vector<Layer>> lists;
  Position position;

  // nullptr: the key has neither a value nor a default.
  const Value* find(const std::string& key) const {
    const auto found = values.find(key);
    return found == values.end() ? nullptr : &found->second;
  }
};

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_LAYER_H_
