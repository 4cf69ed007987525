// Values of any type as TOML.
#ifndef RUNTIME_CONFIG_TOML_TEXT_H_
#define RUNTIME_CONFIG_TOML_TEXT_H_

#include <concepts>
#include <string>
#include <vector>

#include "runtime/config/layer.h"

namespace runtime::config {

// Returns a value as TOML.
std::string toml_text(const std::string& value);
std::string toml_text(bool value);
std::string toml_text(double value);
std::string toml_text(const Init& init);
std::string toml_text(const Value& value);
template <std::integral Integer>
std::string toml_text(Integer value) {
  return std::to_string(value);
}
template <class Item>
std::string toml_text(const std::vector<Item>& items) {
  std::string text = "[";
  for (const Item& item : items) {
    if (text.size() > 1) text += ", ";
    text += toml_text(item);
  }
  return text + "]";
}

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_TOML_TEXT_H_
