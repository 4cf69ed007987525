// Writes layers as TOML: inline tables with keys in the order in which they are given.
#ifndef RUNTIME_EXCHANGE_TOML_LAYERS_H_
#define RUNTIME_EXCHANGE_TOML_LAYERS_H_

#include <string>
#include <string_view>
#include <vector>

namespace runtime::exchange {

// One layer. A key that equals the layer's default may be left out by the caller.
class TomlLayer {
 public:
  explicit TomlLayer(std::string_view type);

  TomlLayer& text(std::string_view key, std::string_view value);
  TomlLayer& integer(std::string_view key, int64_t value);
  TomlLayer& number(std::string_view key, double value);
  TomlLayer& flag(std::string_view key, bool value);
  TomlLayer& list(std::string_view key, const std::vector<TomlLayer>& layers);

  // The inline table; lines behind the first are indented by `indent` spaces.
  std::string str(int indent) const;

 private:
  struct Entry {
    std::string key, value;
    std::vector<TomlLayer> layers;  // if `value` is empty
  };
  std::vector<Entry> entries_;
};

// Adds a layer of dropout, unless the probability is 0.
void add_dropout(std::vector<TomlLayer>& to, double probability);
// A block that is repeated; a single one has the name that the first of several would have.
TomlLayer repeated(const std::string& name, int64_t count, const std::vector<TomlLayer>& layers);
// A list of layers, one on each line.
std::string to_toml(const std::vector<TomlLayer>& layers, int indent = 0);

}  // namespace runtime::exchange

#endif  // RUNTIME_EXCHANGE_TOML_LAYERS_H_
