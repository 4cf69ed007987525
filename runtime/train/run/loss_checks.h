// What is said of losses that are not what they should be, and whether they end the run.
#ifndef RUNTIME_TRAIN_RUN_LOSS_CHECKS_H_
#define RUNTIME_TRAIN_RUN_LOSS_CHECKS_H_

#include <cstdint>
#include <set>
#include <string>

#include "runtime/config/config.h"
#include "runtime/train/reporter.h"
#include "runtime/train/trainer.h"

namespace runtime::train {

// Used by one thread. Each kind of warning is said once in a run.
class LossChecks {
 public:
  LossChecks(const config::Config& config, Reporter& reporter)
      : config_(config), reporter_(reporter) {}

  // Throws NumericError if the loss is not finite (debug.nan = "stop"). Warns of a gradient that
  // was clipped to 0, and of a batch in which no label counts.
  void check(const StepResult& result);
  // Warns that `what`, of the `part` of the data, has no label that counts.
  void nothing_counts(const std::string& what, const std::string& part);
  // The validation loss after `step` is not finite. Returns the error that ends the run on every
  // rank, because the loss is the same on all of them; "" if debug.nan only warns.
  std::string validation_not_finite(int64_t step, double loss);

 private:
  void not_finite(const StepResult& result);
  void clipped_to_zero(const StepResult& result);

  const config::Config& config_;
  Reporter& reporter_;
  bool warned_ = false, overflown_ = false;
  std::set<std::string> uncounted_;  // what has been said to count nothing
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RUN_LOSS_CHECKS_H_
