// The values of a tokenizer.json, each with its place for messages.
#ifndef RUNTIME_TOKENIZER_ELEMENT_H_
#define RUNTIME_TOKENIZER_ELEMENT_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/row_of.h"

namespace runtime::tokenizer {

// A value of a JSON document, which must outlive it. All functions throw DataError "<file>: <place>
// is <value>; expected ..." for a value that is not what the caller expects.
class Element {
 public:
  Element(const nlohmann::json& value, std::string where)
      : value_(&value), where_(std::move(where)) {}

  const nlohmann::json& json() const { return *value_; }
  // The place, for example "tokenizer.json: pre_tokenizer.pretokenizers[1]".
  const std::string& where() const { return where_; }
  bool is_null() const;
  // Whether the object has the key, with another value than null.
  bool has(const char* key) const;
  Element at(const char* key) const;
  Element at(std::size_t index) const;
  // The elements of an array, which lies in fewer than 16 others.
  std::vector<Element> list() const;

  std::string text() const;
  bool flag() const;
  int64_t number(int64_t least, int64_t most) const;
  // The value of a key; `otherwise` where the key is missing or null.
  std::string text(const char* key, const std::string& otherwise) const;
  bool flag(const char* key, bool otherwise) const;

  [[noreturn]] void refuse(const std::string& expected) const;
  // The row whose name is the value of the key `type`; `otherwise` where it is missing.
  template <class Rows>
  const auto& row(const Rows& rows, const std::string& otherwise = "") const {
    const std::string type = otherwise.empty() ? at("type").text() : text("type", otherwise);
    const auto* found = find_choice(rows, type);
    if (found == nullptr) refuse_type(type, names_of_rows(rows));
    return *found;
  }

 private:
  [[noreturn]] void refuse_type(const std::string& type,
                                const std::vector<std::string>& names) const;

  const nlohmann::json* value_;
  std::string where_;
};

// A kind of component by the type that names it, and what reads it.
template <class Component>
struct ComponentRow {
  std::string_view name;
  Component (&read)(const Element& element);
};

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_ELEMENT_H_
