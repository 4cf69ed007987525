// Whether the validation still gets better: for early stopping, and for the schedule "plateau".
#ifndef RUNTIME_TRAIN_PROGRESS_H_
#define RUNTIME_TRAIN_PROGRESS_H_

#include <cstdint>
#include <limits>

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

// Lowers the learning rate when the monitored value no longer gets better. One thread. Equivalent
// to: ReduceLROnPlateau with threshold_mode = "rel".
class Plateau {
 public:
  explicit Plateau(const config::Config& config);
  // Takes the value after a validation.
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
  // Takes the value after a validation.
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
