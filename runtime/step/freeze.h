// Patterns of parameter names, as in model.freeze and model.init_except.
#ifndef RUNTIME_STEP_FREEZE_H_
#define RUNTIME_STEP_FREEZE_H_

#include <string>
#include <vector>

#include "runtime/config/training.h"
#include "runtime/model/network.h"

namespace runtime::step {

// Whether a pattern (* and ? as in a shell) matches the name.
bool matches_any(const std::vector<std::string>& patterns, const std::string& name);

// Throws ConfigurationError if a pattern of model.freeze or of a group of the optimizer matches
// none of the parameters; the message names those that exist.
void check_patterns(const std::vector<std::string>& freeze, const config::Optimizer& optimizer,
                    const std::vector<model::Parameter>& parameters);

}  // namespace runtime::step

#endif  // RUNTIME_STEP_FREEZE_H_
