// The times and memory that a run has measured, beside its plan, and whether adding ranks pays.
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

// The mean cost of a training step on one rank, in seconds.
struct StepCost {
  int64_t steps = 0;           // steps that were measured
  double seconds = 0;          // of one step, input and waiting included
  parallel::ByAxis exposed{};  // of these, in collectives

  double all_exposed() const { return exposed[0] + exposed[1] + exposed[2]; }
};

// The times in `times`, which are by communicator, as seconds by axis.
parallel::ByAxis exposed_by_axis(const exec::CollectiveTimes& times);

// What a run has measured, with its plan and prediction.
struct Scaling {
  std::string backend;
  int64_t global_batch = 0;
  bool shares_by_speed = false;                  // parallelism.share = "by_speed"
  parallel::StepTimes measured;                  // means over the ranks
  std::optional<parallel::StepTimes> predicted;  // empty if the device has no times
  JobPlan plan;
  std::vector<RankMemory> used;     // by rank: what its programs requested
  std::vector<uint64_t> allocated;  // by rank: what the device has given it for any use
};

// Called by all ranks when no steps are left: runs the collectives of a step alone, for up to a
// fifth of a second for each axis. `collectives` is null for one rank. The result has no plan yet.
Scaling measure_scaling(const config::Config& config, Trainer& trainer,
                        exec::Collectives* collectives, const std::string& backend,
                        const StepCost& cost, const Planner& planner);

// Adds the plan of the job. Called on rank 0 while no rank waits in a collective, because it may
// take long. T_comp(B) is the measured T_comp, scaled by the ratio in the plan.
void add_plan(Scaling& scaling, const config::Config& config, const Planner& planner);

// Lines for people: the times, if there are several ranks; the memory of each role.
std::string explain(const Scaling& scaling);
std::string explain_memory(const Scaling& scaling);
// One JSON object; parallel/README.md lists the keys.
std::string to_json(const Scaling& scaling);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_SCALING_H_
