#include "runtime/train/schedule.h"

#include <algorithm>
#include <cmath>

namespace runtime::train {

double learning_rate(const config::Config& config, int64_t step, int64_t epoch) {
  const config::LrScheduler& scheduler = config.lr_scheduler;
  double lr = config.optimizer.lr;
  if (scheduler.scale_with_batch != "none") {
    const double factor = static_cast<double>(config.training.global_batch_size) /
                          static_cast<double>(scheduler.reference_batch_size);
    lr *= scheduler.scale_with_batch == "linear" ? factor : std::sqrt(factor);
  }
  if (scheduler.name == "step")
    lr *= std::pow(scheduler.gamma,
                   static_cast<double>(epoch / std::max<int64_t>(1, scheduler.step_size)));
  if (step < scheduler.warmup_steps)
    lr *= static_cast<double>(step + 1) / static_cast<double>(scheduler.warmup_steps);
  return lr;
}

}  // namespace runtime::train
