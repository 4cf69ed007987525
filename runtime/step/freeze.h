// Patterns of parameter names, as in model.freeze and model.init_except.
#ifndef RUNTIME_STEP_FREEZE_H_
#define RUNTIME_STEP_FREEZE_H_

#include <string>
#include <vector>

namespace runtime::step {

// Whether a pattern (* and ? as in a shell) matches the name.
bool matches_any(const std::vector<std::string>& patterns, const std::string& name);

}  // namespace runtime::step

#endif  // RUNTIME_STEP_FREEZE_H_
