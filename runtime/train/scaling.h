// Does adding ranks pay? What a run has measured beside what its plan predicts.
#ifndef RUNTIME_TRAIN_SCALING_H_
#define RUNTIME_TRAIN_SCALING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/config/config.h"
#include "runtime/exec/collectives.h"
#include "runtime/parallel/batch_split.h"
#include "runtime/parallel/efficiency.h"
#include "runtime/train/trainer.h"

namespace runtime::train {

// Of the training steps of one rank.
struct StepCost {
  int64_t steps = 0;   // that were measured
  double seconds = 0;  // of one, input and waiting included
  double exposed = 0;  // of those, in collectives
};

struct Scaling {
  std::string backend;
  int64_t global_batch = 0;
  parallel::StepTimes measured;                  // means over the ranks
  std::optional<parallel::StepTimes> predicted;  // none where the device does not estimate
};

parallel::PredictOptions predict_options(const config::Config& config,
                                         const parallel::BatchSplit& split,
                                         const parallel::Link& link);

// All ranks call it when there are no more steps to do: it runs the collectives of a step alone for
// up to a fifth of a second. T_comp(B) is the measured T_comp, scaled as the plan's estimates are.
Scaling measure_scaling(const config::Config& config, Trainer& trainer,
                        exec::Collectives& collectives, const std::string& backend,
                        const StepCost& cost);

std::string explain(const Scaling& scaling);
// One object; parallel/README.md has the keys.
std::string to_json(const Scaling& scaling);

// Floating-point operations of a rank's step of so many passes.
double step_flops(const graph::Graph& graph, int64_t passes);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_SCALING_H_
