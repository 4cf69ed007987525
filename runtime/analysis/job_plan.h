// Plans a job on one device, without its ranks: what each rank will hold, send and take.
#ifndef RUNTIME_ANALYSIS_JOB_PLAN_H_
#define RUNTIME_ANALYSIS_JOB_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/analysis/cluster.h"
#include "runtime/analysis/fallback_use.h"
#include "runtime/config/config.h"
#include "runtime/data/dataset.h"
#include "runtime/exec/compile_options.h"
#include "runtime/exec/node_times.h"
#include "runtime/parallel/predict.h"

namespace runtime::train {
class StepPrograms;
struct PlannedRank;
}  // namespace runtime::train

namespace runtime::analysis {

// The memory of a rank by use, in bytes. `state`: of the optimizer, running statistics and sums.
// `arena`: activations, inputs (also those of the next steps) and workspaces, at the peak of a step
// or of an evaluation, whichever needs more.
struct RankMemory {
  uint64_t parameters = 0, gradients = 0, state = 0, packed = 0, arena = 0;
  uint64_t largest_workspace = 0;  // of one operation; part of the arena

  uint64_t total() const { return parameters + gradients + state + packed + arena; }
};

// The memory of programs that have been made.
RankMemory memory_of(train::StepPrograms& programs);

// The ranks of one place in the pipeline; those that differ in the other axes are alike.
struct RolePlan {
  std::vector<int> ranks;
  std::string layers;  // first and last layer of each stage, e.g. "wte to h.2"
  RankMemory memory;
  double flops = 0;                        // of one step
  double pass_seconds = 0;                 // of the operations of all passes, without the update
  std::vector<FallbackUse> fallback = {};  // of one step
  uint64_t fallback_bytes = 0;             // host memory for these
  // Host memory that checkpoints keep, see train::KeptState; 0: [checkpoint] is off.
  uint64_t checkpoint_bytes = 0;
};

// The predicted memory and step time of a job.
struct JobPlan {
  parallel::Mesh mesh;
  std::vector<RolePlan> roles;
  parallel::Prediction prediction;  // times.compute_alone is 0 until predict_alone()
  // Where the times of operations are from: the device has measured or estimated them, or they
  // were computed from a data sheet.
  enum class Times { kEstimated, kMeasured, kComputed } source = Times::kEstimated;
  uint64_t memory_limit = 0;  // of a rank, in bytes; 0: unknown
  std::vector<std::string> notes;

  uint64_t peak() const;  // bytes of the rank that needs the most
  bool fits() const { return memory_limit == 0 || peak() <= memory_limit; }
};

// Makes plans of jobs for one kind of data and device.
struct Planner {
  data::SampleSpec spec;
  std::shared_ptr<plugins::host::Device> device;
  exec::CompileOptions options;           // collectives are ignored
  std::optional<DeviceSheet> sheet = {};  // of the ranks' devices, if they are not like `device`
  parallel::Cluster cluster = {};
  bool share_device = false;  // all ranks run on `device` together
  bool evaluates = false;     // the run also evaluates, which needs memory too
  bool trains = true;         // false: it does nothing else, for memory_advice()
  // What has been measured so far, which all plans of one planner and its copies share.
  std::shared_ptr<exec::NodeTimes> times = std::make_shared<exec::NodeTimes>();

  // Returns the place of a rank that is only planned, with the memory of the sheet.
  train::PlannedRank planned_rank(int rank, int world_size) const;
  // The options with which the programs of a rank are compiled: nothing is measured where the times
  // are those of a sheet.
  exec::CompileOptions rank_options() const;
  // Compiles the programs of one rank of each role without allocating their memory. If they fit
  // into the free memory, device.tune is not "off" and there is no sheet, it then runs their
  // operations to measure them, each kind once for all plans. `config` is resolved for `world_size`
  // ranks (see ranks.h). Throws what compiling a step throws.
  JobPlan plan(const config::Config& config, int world_size) const;
  // Adds the compute time of a job of one rank, which has the whole model and the global batch.
  void predict_alone(const config::Config& config, JobPlan& plan) const;
};

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_JOB_PLAN_H_
