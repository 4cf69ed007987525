// Learning-rate schedules.
#ifndef RUNTIME_TRAIN_SCHEDULE_H_
#define RUNTIME_TRAIN_SCHEDULE_H_

#include <cstdint>

#include "runtime/config/config.h"

namespace runtime::train {

// As the configuration says: steps, or epochs of so many steps.
int64_t total_steps(const config::Config& config, int64_t steps_per_epoch);

// The learning rate of step `step` (from 0): optimizer.lr, scaled with the global batch if
// lr_scheduler.scale_with_batch says so (Goyal et al., "Accurate, large minibatch SGD", 2017; the
// square root: Krizhevsky, "One weird trick", 2014), then by the formulas of configs/README.md,
// which are those of PyTorch's schedulers (cosine: Loshchilov and Hutter, "SGDR", 2017, without
// restarts). Runs that are ended early (RunOptions::max_steps) have the rates of whole ones.
double learning_rate(const config::Config& config, int64_t step, int64_t steps_per_epoch);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_SCHEDULE_H_
