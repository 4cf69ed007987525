// The losses, rates and times of the last line, of the epoch and of the run, and their reports.
#ifndef RUNTIME_TRAIN_RUN_EPOCH_LOG_H_
#define RUNTIME_TRAIN_RUN_EPOCH_LOG_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "runtime/config/config.h"
#include "runtime/train/checkpoint/saved_state.h"
#include "runtime/train/device_meter.h"
#include "runtime/train/loss_mean.h"
#include "runtime/train/reporter.h"
#include "runtime/train/run/loss_checks.h"
#include "runtime/train/run/result.h"
#include "runtime/train/step_programs.h"
#include "runtime/train/trainer.h"

namespace runtime::train {

// Used by the thread of the loop. What it is given must outlive it.
class EpochLog {
 public:
  // `noted`: the notes of the programs that were reported before.
  EpochLog(StepPrograms& programs, Trainer& trainer, Reporter& reporter, LossChecks& checks,
           int64_t steps_per_epoch, size_t noted, RunResult& result);
  // Goes on with the line that a checkpoint was in the midst of; `rate`: of the step before.
  void resume(const SavedState& state, double rate);
  LogSums saved() const { return {interval_, interval_samples_}; }

  void begin_run() { begin_ = mark_ = Clock::now(); }
  // An epoch that a run has gone on in has no time.
  void begin_epoch();
  // Counts what was trained. Losses follow, from take_results() or add_loss().
  void add_samples(int64_t samples);
  void add_loss(const LossMean& loss);
  // Takes the losses of finished steps, after checking them; `wait`: of all queued steps.
  void take_results(bool wait);

  // The metrics since the last line, and what the loop says of the present step.
  Metrics current();
  void at(int64_t step) { metrics_.step = step; }
  void at(int64_t epoch, double rate);
  int64_t step() const { return metrics_.step; }

  // Reports a line, and begins the next one.
  void line();
  void restart_line();
  bool has_unreported() const { return interval_.steps > 0; }

  // Around a validation. begin_validation() takes what the line of the validation says of training;
  // report_validation() reports it; end_validation() leaves its time out of the epoch's rate.
  void begin_validation();
  void show_validation(int64_t batch, int64_t batches) {
    reporter_.validation(metrics_, batch, batches);
  }
  void report_validation(const Evaluation& evaluation);
  void end_validation(std::chrono::steady_clock::duration time) { epoch_mark_ += time; }

  // `validated`: whether the last step of the epoch was validated.
  void end_epoch(bool validated);
  // Adds times, energy and mean rates of the run to the result.
  void end_run();

 private:
  using Clock = std::chrono::steady_clock;

  std::optional<double> epoch_seconds() const;
  void set_rates(Metrics& m, double samples_per_second) const;
  void take_loss_scaling();
  void report_notes();

  StepPrograms& programs_;
  Trainer& trainer_;
  Reporter& reporter_;
  LossChecks& checks_;
  const int64_t steps_per_epoch_;
  RunResult& result_;
  DeviceMeter device_;
  size_t noted_;      // notes of the programs that have been reported
  double flops_ = 0;  // of the model for one sample; 0: not needed
  Metrics metrics_, validated_metrics_;
  Clock::time_point begin_, mark_;
  std::optional<Clock::time_point> epoch_begin_;
  Clock::time_point epoch_mark_;  // the begin of the epoch's training, validations left out
  LossMean epoch_, interval_;     // interval_: since the last line
  int64_t epoch_samples_ = 0, interval_samples_ = 0;
  int64_t epoch_after_ = 0;  // the step that the epoch goes on after
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RUN_EPOCH_LOG_H_
