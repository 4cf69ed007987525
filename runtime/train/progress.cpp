// Compares validations for early stopping and the schedule plateau.
#include "runtime/train/progress.h"

#include <algorithm>
#include <cmath>

#include "runtime/config/choices.h"
#include "runtime/train/schedule.h"

namespace runtime::train {

bool is_better(double value, double best, bool larger_is_better, double margin) {
  if (!std::isfinite(value)) return false;
  if (!std::isfinite(best)) return true;
  return larger_is_better ? value > best + margin : value < best - margin;
}

Plateau::Plateau(const config::Config& config)
    : config_(config.lr_scheduler),
      larger_is_better_(larger_is_better(config.validation.monitor)),
      least_factor_(base_rate(config) > 0 ? config_.min_lr / base_rate(config) : 0) {}

void Plateau::add(double value) {
  if (!config::schedule_of(config_).validates) return;
  const double margin = config_.threshold * std::abs(state_.best);
  const bool better = is_better(value, state_.best, larger_is_better_, margin);
  if (better) state_.best = value;
  state_.bad = better ? 0 : state_.bad + 1;
  if (state_.cooldown > 0) {
    --state_.cooldown;
    state_.bad = 0;
  }
  if (state_.bad <= config_.patience) return;
  state_.factor = std::max(state_.factor * config_.gamma, least_factor_);
  state_.cooldown = config_.cooldown;
  state_.bad = 0;
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
