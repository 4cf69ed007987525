// Looks up what a name of the configuration stands for.
#ifndef RUNTIME_ROW_OF_H_
#define RUNTIME_ROW_OF_H_

#include <initializer_list>
#include <string>
#include <string_view>

#include "runtime/error.h"

namespace runtime {

// A row says what one name stands for.
template <class Value>
struct Row {
  std::string_view name;
  Value value;
};

// Returns the value of the row called `name`. Throws InternalError, which names the configuration
// key, if there is none: the configuration accepts a name that nobody has taught the caller.
template <class Value>
Value row_of(const char* key, std::string_view name, std::initializer_list<Row<Value>> rows) {
  for (const Row<Value>& row : rows)
    if (row.name == name) return row.value;
  throw InternalError(std::string(key) + " = \"" + std::string(name) +
                      "\" is accepted, but nothing is written for it");
}

}  // namespace runtime

#endif  // RUNTIME_ROW_OF_H_
