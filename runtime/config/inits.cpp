// The initial values of parameters: what the configuration needs to know of each. What draws them
// is in runtime/train/weights.cpp.
#include "runtime/config/inits.h"

#include "runtime/config/declare.h"

namespace runtime::config {

const std::vector<InitRow>& inits() {
  static const std::vector<InitRow>& all =
      *new std::vector<InitRow>{{"default"},
                                {"xavier_uniform"},
                                {"xavier_normal"},
                                {"kaiming_uniform"},
                                {"kaiming_normal"},
                                {"normal", "standard deviation", at_least(0)},
                                {"uniform", "bound", at_least(0)},
                                {"constant", "value"}};
  return all;
}

}  // namespace runtime::config
