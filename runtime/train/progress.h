// Whether the validation still gets better: for early stopping, and for the schedule "plateau".
#ifndef RUNTIME_TRAIN_PROGRESS_H_
#define RUNTIME_TRAIN_PROGRESS_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "runtime/config/config.h"
#include "runtime/config/metrics.h"

namespace runtime::train {

using config::larger_is_better;

// ProgressState is what Plateau and EarlyStopping know of the validations so far. Checkpoints save
// it.
struct ProgressState {
  double best = std::numeric_limits<double>::quiet_NaN();  // NaN: no validation yet
  int64_t bad = 0;                                         // validations since then
  int64_t cooldown = 0;                                    // Plateau: validations left
  double factor = 1;                                       // Plateau: of the learning rate
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

// Lowers the learning rate when the monitored value no longer gets better, by more than
// lr_scheduler.threshold times the absolute value of the best one. One thread. Equivalent to:
// ReduceLROnPlateau with threshold_mode = "rel", but for negative values, where that one takes
// worse values for better ones.
class Plateau {
 public:
  explicit Plateau(const config::Config& config);
  // Takes the value after a validation; one that is not finite is not better.
  void add(double value);
  // The learning rate is multiplied by it; 1 with another schedule.
  double factor() const { return state_.factor; }
  const ProgressState& state() const { return state_; }
  void set_state(const ProgressState& state) { state_ = state; }

 private:
  const config::LrScheduler& config_;
  const bool larger_is_better_;
  const double least_factor_;
  ProgressState state_;
};

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
