// The keys of a section that come from the rows of its choices.
#ifndef RUNTIME_CONFIG_KEYS_OF_CHOICES_H_
#define RUNTIME_CONFIG_KEYS_OF_CHOICES_H_

#include <algorithm>
#include <string_view>
#include <vector>

#include "runtime/config/choices.h"

namespace runtime::config {

// The key of this name, or nullptr.
template <class Keys>
auto find_declared(Keys& keys, std::string_view name) -> decltype(keys.data()) {
  const auto key = std::find_if(keys.begin(), keys.end(),
                                [&](const auto& k) { return k.declared.name == name; });
  return key == keys.end() ? nullptr : &*key;
}

// Returns the range of all numbers of both.
Range hull(const Range& a, const Range& b);

// Returns the keys of the rows, each once, in the order of the rows. The range of a key is that of
// all rows that use it, and its documentation says what it does for which of them.
template <class Row>
auto keys_of_choices(const std::vector<Row>& rows) {
  decltype(Row::keys) all;
  for (const Row& row : rows) {
    for (const auto& key : row.keys) {
      auto* const known = find_declared(all, key.declared.name);
      if (known == nullptr)
        all.push_back(key);
      else
        known->declared.range = hull(known->declared.range, key.declared.range);
    }
  }
  for (auto& key : all) {
    std::vector<KeyUse> uses;
    for (const Row& row : rows) {
      if (const auto* own = find_declared(row.keys, key.declared.name))
        uses.push_back({row.name, own->declared.documentation +
                                      own_default_text(own->declared.type, own->own_default)});
    }
    key.declared.documentation = join_uses(uses);
  }
  return all;
}

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_KEYS_OF_CHOICES_H_
