// When a run is validated, and what follows from the result.
#ifndef RUNTIME_TRAIN_RUN_VALIDATOR_H_
#define RUNTIME_TRAIN_RUN_VALIDATOR_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/config/config.h"
#include "runtime/data/loader.h"
#include "runtime/train/checkpoint/saved_state.h"
#include "runtime/train/progress.h"
#include "runtime/train/run/epoch_log.h"
#include "runtime/train/run/loss_checks.h"
#include "runtime/train/run/result.h"
#include "runtime/train/schedule.h"
#include "runtime/train/trainer.h"

namespace runtime::train {

// Evaluates the model between steps, keeps the best value, and tells the schedule and early
// stopping. Used by the thread of the loop; every rank makes the same calls. What it is given must
// outlive it.
class Validator {
 public:
  // `data` may be null: there is no validation.
  Validator(StepPrograms& programs, Trainer& trainer, std::shared_ptr<const data::Dataset> data,
            int64_t steps_per_epoch, Schedule& schedule, EpochLog& log, LossChecks& checks,
            RunResult& result);
  void resume(const SavedState& state);
  // Writes what a run needs that goes on from here.
  void save(SavedState& state) const;

  // Whether a validation follows this step. A run that ends between two validations ends with one,
  // but not where it is only cut short.
  bool due(int64_t step) const;
  // Validates after `step`, the last one that was done. Returns the value of validation.monitor,
  // the same on every rank; empty if there is none.
  std::optional<double> run(int64_t step);
  int64_t validated() const { return validated_; }  // the step of the last validation
  // Makes the programs of all forms that validations have.
  void make_programs();

 private:
  bool is_regular(int64_t step) const;
  std::optional<double> take(const Evaluation& evaluation);
  double monitored(const Evaluation& evaluation) const;
  void decide(double value);

  StepPrograms& programs_;
  Trainer& trainer_;
  std::optional<data::Loader> loader_;
  const int64_t steps_per_epoch_;
  Schedule& schedule_;
  EpochLog& log_;
  LossChecks& checks_;
  RunResult& result_;
  EarlyStopping early_stopping_;
  int64_t validated_ = 0;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RUN_VALIDATOR_H_
