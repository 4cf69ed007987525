// Learning-rate schedules.
#ifndef RUNTIME_TRAIN_SCHEDULE_H_
#define RUNTIME_TRAIN_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/config.h"

namespace runtime::train {

// The names of the schedules that something is written for.
std::vector<std::string> written_schedules();

// The number of steps of the run, from the configuration: steps, or epochs of `steps_per_epoch`.
int64_t total_steps(const config::Config& config, int64_t steps_per_epoch);

// optimizer.lr, scaled with the global batch: what a schedule begins with.
double base_rate(const config::Config& config);

// The learning rate of step `step` (from 0): optimizer.lr, scaled with the global batch if
// lr_scheduler.scale_with_batch says so (Goyal et al., "Accurate, large minibatch SGD", 2017; for
// the square root Krizhevsky, "One weird trick", 2014), then scheduled by the formulas of
// configs/README.md, which are those of PyTorch's schedulers (cosine: Loshchilov and Hutter,
// "SGDR", 2017; one_cycle: Smith and Topin, "Super-convergence", 2018, for the learning rate alone)
// and, for warmup_stable_decay, of get_wsd_schedule in transformers. The rate of "plateau" depends
// on validations: it is that of "constant" times Plateau::factor() (progress.h). A run that is
// ended early (RunOptions::max_steps) has the rates of the whole run.
double learning_rate(const config::Config& config, int64_t step, int64_t steps_per_epoch);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_SCHEDULE_H_
