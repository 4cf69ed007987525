// What the ranks of a job will hold, send and take: one device, none of the ranks.
#ifndef RUNTIME_TRAIN_JOB_PLAN_H_
#define RUNTIME_TRAIN_JOB_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/data/dataset.h"
#include "runtime/exec/compile.h"
#include "runtime/parallel/predict.h"

namespace runtime::train {

class StepPrograms;

// Bytes of a rank by use. `state`: the optimizer's, running statistics and sums. `arena`:
// activations, inputs (and those of the next steps) and workspaces at the peak of a step (or of an
// evaluation, where it is more).
struct RankMemory {
  uint64_t parameters = 0, gradients = 0, state = 0, packed = 0, arena = 0;
  uint64_t largest_workspace = 0;  // of one operation, in the arena

  uint64_t total() const { return parameters + gradients + state + packed + arena; }
};

// Of programs that have been made.
RankMemory memory_of(StepPrograms& programs);

// Ranks of one place in the pipeline; those of the other axes are alike.
struct RolePlan {
  std::vector<int> ranks;
  std::string layers;  // "wte to h.2", of each of its stages
  RankMemory memory;
  double flops = 0;  // of a step
};

struct JobPlan {
  parallel::Mesh mesh;
  std::vector<RolePlan> roles;
  parallel::Prediction prediction;  // times.compute_alone is 0 until predict_alone()
  bool measured = false;            // times of operations were measured here
  uint64_t memory_limit = 0;        // of a rank; 0: unknown
  std::vector<std::string> notes;

  uint64_t peak() const;  // of the rank that needs the most
  bool fits() const { return memory_limit == 0 || peak() <= memory_limit; }
};

// What plans are made from.
struct Planner {
  data::SampleSpec spec;
  std::shared_ptr<plugins::host::Device> device;
  exec::CompileOptions options;  // collectives are ignored
  parallel::Link link = {};
  bool share_device = false;  // all ranks use this one
  bool evaluates = false;     // now and then, which needs memory too

  // Makes the programs of one rank of each role without memory; where they fit into what is free
  // and device.tune is not "off", they are run for their times, one rank after the other. `config`
  // is resolved for `world_size` ranks (see ranks.h). Throws what making a step throws.
  JobPlan plan(const config::Config& config, int world_size) const;
  // One such rank with the whole model and batch.
  void predict_alone(const config::Config& config, JobPlan& plan) const;
};

// "runtime plan"'s answer to parallelism.search.
struct Candidate {
  config::Config config;  // with the degrees, resolved
  parallel::Mesh mesh;
  JobPlan plan;
  std::string reason;  // why it is none; empty: it is one
};

// All meshes of so many ranks: those that fit, the fastest first, then the others.
std::vector<Candidate> search(const config::Config& config, int world_size, const Planner& planner);

// Throws ConfigurationError if none of them fits.
const Candidate& best_of(const std::vector<Candidate>& candidates);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_JOB_PLAN_H_
