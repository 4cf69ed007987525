// Learning-rate schedules.
#ifndef RUNTIME_TRAIN_SCHEDULE_H_
#define RUNTIME_TRAIN_SCHEDULE_H_

#include <cstdint>

#include "runtime/config/config.h"

namespace runtime::train {

// The learning rate of step `step` (from 0) in epoch `epoch` (from 0): optimizer.lr, scaled with
// the global batch if lr_scheduler.scale_with_batch says so (Goyal et al., "Accurate, large
// minibatch SGD", 2017; the square root: Krizhevsky, "One weird trick", 2014), then constant, or
// multiplied by gamma every step_size epochs; during the first warmup_steps it grows linearly.
double learning_rate(const config::Config& config, int64_t step, int64_t epoch);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_SCHEDULE_H_
