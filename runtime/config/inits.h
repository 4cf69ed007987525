// The initial values of parameters, as rows.
#ifndef RUNTIME_CONFIG_INITS_H_
#define RUNTIME_CONFIG_INITS_H_

#include <string>
#include <vector>

#include "runtime/config/schema.h"
#include "runtime/row_of.h"

namespace runtime::config {

// A value of model.init and of the init of a layer. The list is constant; any thread may read it.
struct InitRow {
  std::string name;
  std::string value = {};  // what its number is, of { name = number }; "": it has none
  Range range = {};        // of the number
};
const std::vector<InitRow>& inits();

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_INITS_H_
