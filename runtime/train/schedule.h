// The learning rates of a run.
#ifndef RUNTIME_TRAIN_SCHEDULE_H_
#define RUNTIME_TRAIN_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/train/progress.h"

namespace runtime::train {

// The names of the schedules that something is written for.
std::vector<std::string> written_schedules();

// The learning rate of each step of a run. The one who goes through the steps makes it once. One
// thread.
class Schedule {
 public:
  // `config` must outlive it.
  Schedule(const config::Config& config, int64_t steps_per_epoch);

  // The number of steps of the whole run, of training.steps or training.epochs. A run that is ended
  // early (RunOptions::max_steps) has the rates of the whole run.
  int64_t total_steps() const { return total_; }

  // The rate of step `step` (from 0): optimizer.lr, scaled with the global batch if
  // lr_scheduler.scale_with_batch says so (Goyal et al., "Accurate, large minibatch SGD", 2017; for
  // the square root Krizhevsky, "One weird trick", 2014), then scheduled by the formulas of
  // configs/README.md, which are those of PyTorch's schedulers (cosine: Loshchilov and Hutter,
  // "SGDR", 2017; one_cycle: Smith and Topin, "Super-convergence", 2018, for the learning rate
  // alone) and, for warmup_stable_decay, of get_wsd_schedule in transformers.
  double rate(int64_t step) const;

  // Takes the value of validation.monitor after a validation; one that is not finite is not better.
  // "plateau" lowers the rates that follow when the value no longer gets better by more than
  // lr_scheduler.threshold times the absolute value of the best one; other schedules do nothing.
  // Equivalent to: ReduceLROnPlateau with threshold_mode = "rel", but for negative values, where
  // that one takes worse values for better ones.
  void add_validation(double value);
  const ProgressState& validations() const { return validations_; }
  void set_validations(const ProgressState& state) { validations_ = state; }

 private:
  const config::LrScheduler& scheduler_;
  const bool larger_is_better_;
  const int64_t steps_per_epoch_, total_;
  const double start_, end_;  // the rates that a decay begins and ends with
  ProgressState validations_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_SCHEDULE_H_
