// Learning-rate schedules.
#ifndef RUNTIME_TRAIN_SCHEDULE_H_
#define RUNTIME_TRAIN_SCHEDULE_H_

#include <cstdint>

#include "runtime/config/config.h"

namespace runtime::train {

// The learning rate of step `step` (from 0) in epoch `epoch` (from 0): constant, or multiplied by
// gamma every step_size epochs; during the first warmup_steps it grows linearly from lr /
// warmup_steps.
double learning_rate(const config::Optimizer& optimizer, const config::LrScheduler& scheduler,
                     int64_t step, int64_t epoch);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_SCHEDULE_H_
