#include "runtime/train/schedule.h"

#include <algorithm>
#include <cmath>

namespace runtime::train {

double learning_rate(const config::Optimizer& optimizer, const config::LrScheduler& scheduler,
                     int64_t step, int64_t epoch) {
  double lr = optimizer.lr;
  if (scheduler.name == "step")
    lr *= std::pow(scheduler.gamma,
                   static_cast<double>(epoch / std::max<int64_t>(1, scheduler.step_size)));
  if (step < scheduler.warmup_steps)
    lr *= static_cast<double>(step + 1) / static_cast<double>(scheduler.warmup_steps);
  return lr;
}

}  // namespace runtime::train
