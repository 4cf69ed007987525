// One layer of [model] as it is written in the file.
#ifndef RUNTIME_CONFIG_LAYER_H_
#define RUNTIME_CONFIG_LAYER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace runtime::config {

// Where a value was written. Line and column count from 1; `file` is "--set" for command-line
// overrides.
struct Location {
  std::string file;
  int line = 0;
  int column = 0;
  std::string text() const;  // "lenet.toml:12:9"
};

// How initial values are drawn: `kind` is one of the names in the schema, `value` is the argument
// of "normal", "uniform" or "constant".
struct Init {
  std::string kind = "default";
  double value = 0;
  bool operator==(const Init&) const = default;
};

// One layer as written: `type`, the keys that all types have, the keys of this type with their
// defaults, and nested layers. The keys of the type (and `stage` and `shard` where they are given)
// are in the three maps, each key in exactly one of them. A key with two values is stored as two
// integers: kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
// padding = "same" is strings["padding"] instead.
struct Layer {
  std::string type;
  std::string name;        // "" if not given
  std::string activation;  // "" | "relu" | "gelu" | "gelu_tanh" | "tanh" | "sigmoid"
  int64_t repeat = 1;
  double l2 = 0;
  std::optional<Init> init;
  std::map<std::string, int64_t> integers;  // booleans are 0 and 1
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> strings;
  std::vector<Layer> layers;    // of a residual or a block
  std::vector<Layer> shortcut;  // of a residual; empty: the identity
  Location location;
};

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_LAYER_H_
