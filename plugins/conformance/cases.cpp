#include <algorithm>

#include "plugins/conformance/builder.h"

namespace plugins::conformance {

std::string label(const Dims& dims) {
  if (dims.empty()) return "scalar";
  std::string text = std::to_string(dims.front());
  for (size_t i = 1; i < dims.size(); ++i) text.append("x").append(std::to_string(dims[i]));
  return text;
}

std::vector<Case> all_cases() {
  Cases cases;
  for (const rt_dtype dtype : {RT_FLOAT32, RT_FLOAT64}) {
    add_matmul(cases, dtype);
    add_convolution(cases, dtype);
    add_pooling(cases, dtype);
    add_elementwise(cases, dtype);
    add_reductions(cases, dtype);
    add_losses(cases, dtype);
    add_normalisation(cases, dtype);
    add_movement(cases, dtype);
    add_optimizers(cases, dtype);
  }
  return cases;
}

std::vector<std::string> covered_operations() {
  std::vector<std::string> names;
  for (const Case& c : all_cases()) {
    if (std::find(names.begin(), names.end(), c.operation.name) == names.end()) {
      names.push_back(c.operation.name);
    }
  }
  return names;
}

std::vector<Case> cases_of(const std::string& operation) {
  Cases cases = all_cases();
  std::erase_if(cases, [&](const Case& c) { return c.operation.name != operation; });
  return cases;
}

}  // namespace plugins::conformance
