// Advice for a step that does not fit into the memory of its device.
#ifndef RUNTIME_ANALYSIS_MEMORY_ADVICE_H_
#define RUNTIME_ANALYSIS_MEMORY_ADVICE_H_

#include <string>

#include "runtime/analysis/job_plan.h"

namespace runtime::analysis {

// Text that follows the device's own error: what a rank takes, by use; what is free on the
// planner's device now, unless a tensor alone is larger than its largest buffer; and the largest
// micro-batch that fits, else the largest batch, or that none does. Plans several steps, which
// takes a while, but allocates none of them. `config` is resolved for `world_size` ranks.
std::string memory_advice(const Planner& planner, const config::Config& config, int world_size);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_MEMORY_ADVICE_H_
