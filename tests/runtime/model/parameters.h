// Finds the parameters of a network.
#ifndef TESTS_RUNTIME_MODEL_PARAMETERS_H_
#define TESTS_RUNTIME_MODEL_PARAMETERS_H_

#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/model/network.h"

namespace runtime::model {

inline std::vector<std::string> parameter_names(const Network& network) {
  std::vector<std::string> names;
  for (const Parameter& p : network.parameters) names.push_back(p.name);
  return names;
}

// The parameter of this name; throws std::out_of_range if the network has none.
inline const Parameter& parameter(const Network& network, const std::string& name) {
  for (const Parameter& p : network.parameters) {
    if (p.name == name) return p;
  }
  throw std::out_of_range(name);
}

}  // namespace runtime::model

#endif  // TESTS_RUNTIME_MODEL_PARAMETERS_H_
