// Compares validations for early stopping and the schedule plateau.
#include "runtime/train/progress.h"

#include <cmath>

namespace runtime::train {

bool is_better(double value, double best, bool larger_is_better, double margin) {
  if (!std::isfinite(value)) return false;
  if (!std::isfinite(best)) return true;
  return larger_is_better ? value > best + margin : value < best - margin;
}

EarlyStopping::EarlyStopping(const config::Config& config)
    : config_(config.early_stopping),
      larger_is_better_(larger_is_better(config.validation.monitor)) {}

void EarlyStopping::add(double value) {
  const bool better = is_better(value, state_.best, larger_is_better_, config_.min_delta);
  if (better) state_.best = value;
  state_.bad = better ? 0 : state_.bad + 1;
}

}  // namespace runtime::train
