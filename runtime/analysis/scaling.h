// The times and memory that a run has measured, beside its plan, and whether adding ranks pays.
#ifndef RUNTIME_ANALYSIS_SCALING_H_
#define RUNTIME_ANALYSIS_SCALING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/analysis/job_plan.h"
#include "runtime/config/config.h"
#include "runtime/exec/collectives.h"
#include "runtime/parallel/efficiency.h"
#include "runtime/train/cost_meter.h"

namespace runtime::analysis {

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
Scaling measure_scaling(const config::Config& config, train::StepPrograms& programs,
                        exec::Collectives* collectives, const std::string& backend,
                        const train::StepCost& cost, const Planner& planner);

// Adds the plan of the job. Called on rank 0 while no rank waits in a collective, because it may
// take long. T_comp(B) is the measured T_comp, scaled by the ratio in the plan.
void add_plan(Scaling& scaling, const config::Config& config, const Planner& planner);

// Lines for people: the times, if there are several ranks; the memory of each role.
std::string explain(const Scaling& scaling);
std::string explain_memory(const Scaling& scaling);
// One JSON object; parallel/README.md lists the keys.
std::string to_json(const Scaling& scaling);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_SCALING_H_
