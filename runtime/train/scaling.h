// What a run has measured, beside what its plan says: time, memory, and whether ranks pay.
#ifndef RUNTIME_TRAIN_SCALING_H_
#define RUNTIME_TRAIN_SCALING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/exec/collectives.h"
#include "runtime/parallel/efficiency.h"
#include "runtime/train/job_plan.h"
#include "runtime/train/trainer.h"

namespace runtime::train {

// Of the training steps of one rank.
struct StepCost {
  int64_t steps = 0;           // that were measured
  double seconds = 0;          // of one, input and waiting included
  parallel::ByAxis exposed{};  // of those, in collectives

  double all_exposed() const { return exposed[0] + exposed[1] + exposed[2]; }
};

// Seconds by axis of what `times` has by communicator.
parallel::ByAxis exposed_by_axis(const exec::CollectiveTimes& times);

struct Scaling {
  std::string backend;
  int64_t global_batch = 0;
  bool shares_by_speed = false;                  // parallelism.share = "by_speed"
  parallel::StepTimes measured;                  // means over the ranks
  std::optional<parallel::StepTimes> predicted;  // none where the device knows no times
  JobPlan plan;
  std::vector<RankMemory> used;     // by rank: what its programs asked for
  std::vector<uint64_t> allocated;  // by rank: what the device has given it, of any use
};

// All ranks call it when there are no more steps to do: it runs the collectives of a step alone for
// up to a fifth of a second an axis. `collectives` is null for one rank. Without a plan yet.
Scaling measure_scaling(const config::Config& config, Trainer& trainer,
                        exec::Collectives* collectives, const std::string& backend,
                        const StepCost& cost, const Planner& planner);

// On rank 0, while no rank waits in a collective, since it may take long: makes the plan of the
// job. T_comp(B) is the measured T_comp, scaled as the plan's is.
void add_plan(Scaling& scaling, const config::Config& config, const Planner& planner);

// Lines for people: times of several ranks; memory of each role.
std::string explain(const Scaling& scaling);
std::string explain_memory(const Scaling& scaling);
// One object; parallel/README.md has the keys.
std::string to_json(const Scaling& scaling);

// Floating-point operations of a rank's step of so many passes.
double step_flops(const graph::Graph& graph, int64_t passes);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_SCALING_H_
