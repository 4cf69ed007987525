// Which update each parameter has.
#ifndef RUNTIME_STEP_PARAMETER_GROUPS_H_
#define RUNTIME_STEP_PARAMETER_GROUPS_H_

#include <cstddef>
#include <vector>

#include "runtime/config/training.h"
#include "runtime/model/network.h"

namespace runtime::step {

// The rules of all parameter groups: those of `optimizer` itself, then those of its groups. Where
// weight decay is on matrices only, a group is followed by one for its vectors (biases, scales),
// without weight decay. Equivalent to: param_groups of PyTorch's optimizers.
std::vector<config::UpdateRule> update_rules(const config::Optimizer& optimizer);

// The index of a parameter's group in update_rules().
size_t group_of(const config::Optimizer& optimizer, const model::Parameter& parameter);

}  // namespace runtime::step

#endif  // RUNTIME_STEP_PARAMETER_GROUPS_H_
