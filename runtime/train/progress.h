// Whether the validation still gets better, and early stopping.
#ifndef RUNTIME_TRAIN_PROGRESS_H_
#define RUNTIME_TRAIN_PROGRESS_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "runtime/config/config.h"
#include "runtime/config/metrics.h"

namespace runtime::train {

using config::larger_is_better;

// A ProgressState is what Schedule (schedule.h) or EarlyStopping knows of the validations so far.
// Checkpoints save it.
struct ProgressState {
  double best = std::numeric_limits<double>::quiet_NaN();  // NaN: no validation yet
  int64_t bad = 0;                                         // validations since then
  int64_t cooldown = 0;                                    // Schedule: validations left
  double factor = 1;                                       // Schedule: of the learning rate
};

// The best validation of a run.
struct BestValidation {
  double value = 0;  // of validation.monitor
  int64_t step = 0;  // the steps that were done before it
  std::optional<double> loss = {},
                        accuracy = {};  // of the same validation, where they were measured
};

// Returns whether a value of validation.monitor is better than the best one so far by more than
// `margin`, which is at least 0. A value that is not finite is not better than anything, and every
// other one is better than a best one that is not finite.
bool is_better(double value, double best, bool larger_is_better, double margin = 0);

// Says when to stop. One thread. Equivalent to: EarlyStopping of Keras.
class EarlyStopping {
 public:
  explicit EarlyStopping(const config::Config& config);
  // Takes the value after a validation; one that is not finite is not better.
  void add(double value);
  // Whether the run is to end.
  bool ended() const { return config_.patience > 0 && state_.bad >= config_.patience; }
  const ProgressState& state() const { return state_; }
  void set_state(const ProgressState& state) { state_ = state; }

 private:
  const config::EarlyStopping& config_;
  const bool larger_is_better_;
  ProgressState state_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_PROGRESS_H_
