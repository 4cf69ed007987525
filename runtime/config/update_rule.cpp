// The default betas and epsilon of each rule of the optimizer.
#include "runtime/config/training.h"

namespace runtime::config {

std::vector<double> betas_of(const UpdateRule& rule) {
  if (!rule.betas.empty()) return rule.betas;
  return {0.9, rule.name == "lion" ? 0.99 : 0.999};
}

double eps_of(const UpdateRule& rule) {
  if (rule.eps != 0) return rule.eps;
  return rule.name == "adagrad" ? 1e-10 : 1e-8;
}

}  // namespace runtime::config
