// Measures what a step of a run costs.
#ifndef RUNTIME_TRAIN_COST_METER_H_
#define RUNTIME_TRAIN_COST_METER_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "runtime/exec/collectives.h"
#include "runtime/parallel/efficiency.h"

namespace runtime::train {

class StepPrograms;

// The mean cost of a training step on one rank, in seconds.
struct StepCost {
  int64_t steps = 0;           // steps that were measured
  double seconds = 0;          // of one step, input and waiting included
  parallel::ByAxis exposed{};  // part of `seconds` in which the rank waits for collectives

  double all_exposed() const { return exposed[0] + exposed[1] + exposed[2]; }
};

// Sums over the measured steps so far, in seconds.
struct StepTimes {
  int64_t steps = 0;
  double seconds = 0;  // input and waiting included
  double exposed = 0;  // part of `seconds` in which the rank waited for collectives
  double data = 0;     // part of `seconds` in which it waited for its samples
};

// The seconds by axis in which the rank has waited for collectives since the last call.
parallel::ByAxis take_exposed_seconds(const StepPrograms& programs);

// Measures the cost of a step, once caches, plans and clock rates have settled: the time of the
// clock from one step to the next, because a call that queues a step returns before the device has
// computed it. One thread; the programs must outlive the object.
class CostMeter {
 public:
  using Clock = std::chrono::steady_clock;

  // Begins with a run of `total` steps.
  void begin(StepPrograms& programs, int64_t total);
  void begin_step();
  void end_step();
  // Adds to what a step has waited for its samples.
  void add_data(Clock::duration waited) { data_ += waited; }
  // Stops the clock until the next step begins, because a validation or a checkpoint belongs to no
  // step. The call waits for the queued steps.
  void pause();
  // What was measured so far. Does not wait, so the last steps may still be under way on a device.
  StepTimes so_far();
  // Returns the means; no steps if all were for warming up. The call waits for the queued steps.
  StepCost end();

 private:
  static constexpr int64_t kWarmUp = 5;
  void take_exposed();

  StepPrograms* programs_ = nullptr;
  int64_t warm_up_ = 0, steps_ = 0;
  std::optional<Clock::time_point> since_;  // of steps that are not in `seconds_` yet
  std::chrono::duration<double> seconds_{0}, data_{0};
  parallel::ByAxis exposed_{};
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_COST_METER_H_
