// Puts keys and values of layers together as TOML.
#include "runtime/exchange/toml_layers.h"

#include "runtime/config/format.h"

namespace runtime::exchange {

TomlLayer::TomlLayer(std::string_view type) { text("type", type); }

TomlLayer& TomlLayer::text(std::string_view key, std::string_view value) {
  entries_.push_back({std::string(key), config::toml_string(value), {}});
  return *this;
}

TomlLayer& TomlLayer::integer(std::string_view key, int64_t value) {
  entries_.push_back({std::string(key), std::to_string(value), {}});
  return *this;
}

TomlLayer& TomlLayer::number(std::string_view key, double value) {
  entries_.push_back({std::string(key), config::toml_number(value), {}});
  return *this;
}

TomlLayer& TomlLayer::flag(std::string_view key, bool value) {
  entries_.push_back({std::string(key), value ? "true" : "false", {}});
  return *this;
}

TomlLayer& TomlLayer::list(std::string_view key, const std::vector<TomlLayer>& layers) {
  entries_.push_back({std::string(key), "", layers});
  return *this;
}

std::string TomlLayer::str(int indent) const {
  std::string text = "{ ";
  for (const Entry& entry : entries_) {
    if (&entry != &entries_.front()) text += ", ";
    text += entry.key + " = " + (entry.value.empty() ? to_toml(entry.layers, indent) : entry.value);
  }
  return text + " }";
}

void add_dropout(std::vector<TomlLayer>& to, double probability) {
  if (probability > 0) to.push_back(TomlLayer("dropout").number("probability", probability));
}

TomlLayer repeated(const std::string& name, int64_t count, const std::vector<TomlLayer>& layers) {
  TomlLayer block("block");
  block.text("name", count > 1 ? name : name + ".0");
  if (count > 1) block.integer("repeat", count);
  return block.list("layers", layers);
}

std::string to_toml(const std::vector<TomlLayer>& layers, int indent) {
  std::string text = "[";
  for (const TomlLayer& layer : layers) {
    text += "\n" + std::string(static_cast<size_t>(indent) + 2, ' ') + layer.str(indent + 2) + ",";
  }
  return text + (layers.empty() ? "]" : "\n" + std::string(static_cast<size_t>(indent), ' ') + "]");
}

}  // namespace runtime::exchange
