// The losses, rates and times of the last line, of the epoch and of the run, and their reports.
#ifndef RUNTIME_TRAIN_RUN_EPOCH_LOG_H_
#define RUNTIME_TRAIN_RUN_EPOCH_LOG_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "runtime/config/config.h"
#include "runtime/train/checkpoint/saved_state.h"
#include "runtime/train/cost_meter.h"
#include "runtime/train/device_meter.h"
#include "runtime/train/loss_mean.h"
#include "runtime/train/rank/step_programs.h"
#include "runtime/train/reporter.h"
#include "runtime/train/run/loss_checks.h"
#include "runtime/train/run/result.h"
#include "runtime/train/trainer.h"

namespace runtime::train {

// Used by the thread of the loop. What it is given must outlive it.
class EpochLog {
 public:
  // `noted`: the notes of the programs that were reported before.
  EpochLog(StepPrograms& programs, Trainer& trainer, Reporter& reporter, LossChecks& checks,
           CostMeter& cost, int64_t steps_per_epoch, size_t noted, RunResult& result);
  // Goes on with the line that a checkpoint was in the midst of; `rate`: of the step before.
  void resume(const SavedState& state, double rate);
  LogSums saved() const { return {line_.loss, line_.samples}; }

  void begin_run() { begin_ = line_.begin = Clock::now(); }
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
  bool has_unreported() const { return line_.loss.steps > 0; }

  // Around a validation. begin_validation() takes what the line of the validation says of training;
  // report_validation() reports it; end_validation() leaves its time out of the epoch's rate, and
  // begins the next line if this one `ends_line`.
  void begin_validation();
  void show_validation(int64_t batch, int64_t batches) {
    reporter_.validation(metrics_, batch, batches);
  }
  void report_validation(const Evaluation& evaluation);
  void end_validation(std::chrono::steady_clock::duration time, bool ends_line) {
    epoch_.begin += time;
    if (ends_line) line_ = {};
  }

  // `validated`: whether the last step of the epoch was validated.
  void end_epoch(bool validated);
  // Adds times, energy and mean rates of the run to the result.
  void end_run();

 private:
  using Clock = std::chrono::steady_clock;
  // What was trained since `begin`.
  struct Span {
    LossMean loss = {};
    int64_t samples = 0;
    Clock::time_point begin = Clock::now();
    double rate() const;  // samples a second
  };
  struct Epoch : Span {
    std::optional<Clock::time_point> whole_since = {};  // empty: the run has gone on within it
    int64_t after = 0;  // the step behind which this run has begun the epoch
  };

  std::optional<double> epoch_seconds() const;
  void set_rates(Metrics& m, double samples_per_second) const;
  void take_loss_scaling();
  void take_cost();
  void report_notes();

  StepPrograms& programs_;
  Trainer& trainer_;
  Reporter& reporter_;
  LossChecks& checks_;
  CostMeter& cost_;
  const int64_t steps_per_epoch_;
  RunResult& result_;
  DeviceMeter device_;
  size_t noted_;      // notes of the programs that have been reported
  double flops_ = 0;  // of the model for one sample; 0: not needed
  Metrics metrics_, validated_metrics_;
  Clock::time_point begin_;
  Epoch epoch_;         // validations left out
  Span line_;           // since the last line
  StepTimes reported_;  // in the cost of lines before
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RUN_EPOCH_LOG_H_
