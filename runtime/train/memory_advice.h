// What to do about a step that a device has no room for.
#ifndef RUNTIME_TRAIN_MEMORY_ADVICE_H_
#define RUNTIME_TRAIN_MEMORY_ADVICE_H_

#include <string>

#include "runtime/train/job_plan.h"

namespace runtime::train {

// Text for an error, after the device's own words: what a rank of the job takes, by use; what is
// free on the planner's device now; and the largest micro-batch that fits, or that none does.
// Plans steps, which takes a while, and allocates none of them. `config` is resolved for
// `world_size` ranks.
std::string memory_advice(const Planner& planner, const config::Config& config, int world_size);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_MEMORY_ADVICE_H_
