// Measures what a step of a run costs.
#ifndef RUNTIME_TRAIN_COST_METER_H_
#define RUNTIME_TRAIN_COST_METER_H_

#include <chrono>
#include <cstdint>

#include "runtime/train/step_cost.h"

namespace runtime::train {

class StepPrograms;

// Measures the cost of a step, once caches, plans and clock rates have settled. One thread; the
// programs must outlive the object.
class CostMeter {
 public:
  using Clock = std::chrono::steady_clock;

  // Begins with a run of `total` steps.
  void begin(const StepPrograms& programs, int64_t total);
  // Adds the step that has begun then and ends now.
  void add(Clock::time_point step_begin);
  // Returns the means; no steps if all were for warming up.
  StepCost end();

 private:
  static constexpr int64_t kWarmUp = 5;
  const StepPrograms* programs_ = nullptr;
  int64_t warm_up_ = 0, steps_ = 0;
  std::chrono::duration<double> seconds_{0};
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_COST_METER_H_
