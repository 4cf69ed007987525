// Looks up what a name of the configuration stands for.
#ifndef RUNTIME_ROW_OF_H_
#define RUNTIME_ROW_OF_H_

#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/error.h"

namespace runtime {

// A row says what one name stands for.
template <class Value>
struct Row {
  std::string_view name;
  Value value;
};

// Returns the row of `rows` whose member `name` is `name`, or nullptr.
template <class Rows>
auto find_choice(const Rows& rows, std::string_view name) -> decltype(&*std::begin(rows)) {
  for (const auto& row : rows)
    if (row.name == name) return &row;
  return nullptr;
}

// Returns the row of `rows` whose member `name` is `name`. Throws InternalError, which names the
// configuration key, if there is none: the configuration accepts a name that nobody has taught the
// caller.
template <class Rows>
const auto& find_row(const char* key, std::string_view name, const Rows& rows) {
  if (const auto* const row = find_choice(rows, name)) return *row;
  throw InternalError(std::string(key) + " = \"" + std::string(name) +
                      "\" is accepted, but nothing is written for it");
}

// Returns the names of all rows, in their order.
template <class Rows>
std::vector<std::string> names_of_rows(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

// Returns the value of the row called `name`, and throws as find_row().
template <class Value>
Value row_of(const char* key, std::string_view name, std::initializer_list<Row<Value>> rows) {
  return find_row(key, name, rows).value;
}

}  // namespace runtime

#endif  // RUNTIME_ROW_OF_H_
