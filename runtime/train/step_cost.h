// The cost of a training step on one rank.
#ifndef RUNTIME_TRAIN_STEP_COST_H_
#define RUNTIME_TRAIN_STEP_COST_H_

#include <cstdint>

#include "runtime/exec/collectives.h"
#include "runtime/parallel/efficiency.h"

namespace runtime::train {

// The mean cost of a training step on one rank, in seconds.
struct StepCost {
  int64_t steps = 0;           // steps that were measured
  double seconds = 0;          // of one step, input and waiting included
  parallel::ByAxis exposed{};  // part of `seconds` in which the rank waits for collectives

  double all_exposed() const { return exposed[0] + exposed[1] + exposed[2]; }
};

// The times in `times`, which are by communicator, as seconds by axis.
parallel::ByAxis exposed_by_axis(const exec::CollectiveTimes& times);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_STEP_COST_H_
