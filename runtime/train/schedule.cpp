#include "runtime/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace runtime::train {

namespace {

double base_rate(const config::Config& config) {
  const config::LrScheduler& scheduler = config.lr_scheduler;
  const double factor = static_cast<double>(config.training.global_batch_size) /
                        static_cast<double>(scheduler.reference_batch_size);
  if (scheduler.scale_with_batch == "none") return config.optimizer.lr;
  return config.optimizer.lr *
         (scheduler.scale_with_batch == "linear" ? factor : std::sqrt(factor));
}

// The progress of the decay, from 0 to 1.
double progress(const config::LrScheduler& scheduler, int64_t step, int64_t total) {
  const int64_t end = scheduler.decay_steps > 0 ? scheduler.decay_steps : total;
  const auto whole = static_cast<double>(std::max<int64_t>(1, end - scheduler.warmup_steps));
  return std::clamp(static_cast<double>(step - scheduler.warmup_steps) / whole, 0.0, 1.0);
}

int64_t decays(const config::LrScheduler& scheduler, int64_t epoch) {
  if (scheduler.name == "step") return epoch / scheduler.step_size;
  return std::count_if(scheduler.milestones.begin(), scheduler.milestones.end(),
                       [&](int64_t milestone) { return milestone <= epoch; });
}

}  // namespace

int64_t total_steps(const config::Config& config, int64_t steps_per_epoch) {
  if (config.training.steps > 0) return config.training.steps;
  return std::max<int64_t>(config.training.epochs, 1) * steps_per_epoch;
}

double learning_rate(const config::Config& config, int64_t step, int64_t steps_per_epoch) {
  const config::LrScheduler& scheduler = config.lr_scheduler;
  const double start = base_rate(config), end = std::min(scheduler.min_lr, start);
  double lr = start;
  if (scheduler.name == "step" || scheduler.name == "multi_step") {
    const auto count = static_cast<double>(decays(scheduler, step / steps_per_epoch));
    lr = std::max(end, start * std::pow(scheduler.gamma, count));
  } else if (scheduler.name != "constant") {
    const double p = progress(scheduler, step, total_steps(config, steps_per_epoch));
    lr = end + (start - end) *
                   (scheduler.name == "linear" ? 1 - p : (1 + std::cos(std::numbers::pi * p)) / 2);
  }
  if (step < scheduler.warmup_steps)
    lr *= static_cast<double>(step + 1) / static_cast<double>(scheduler.warmup_steps);
  return lr;
}

}  // namespace runtime::train
