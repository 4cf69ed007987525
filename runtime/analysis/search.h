// The search for the mesh, and on described devices for all that decides how a job fits and how
// fast it is.
#ifndef RUNTIME_ANALYSIS_SEARCH_H_
#define RUNTIME_ANALYSIS_SEARCH_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/analysis/job_plan.h"

namespace runtime::analysis {

// One mesh that parallelism.search has examined; "runtime plan" prints a row for each.
struct Candidate {
  config::Config config;  // resolved, with the degrees of the mesh
  parallel::Mesh mesh;
  JobPlan plan;        // empty if the mesh was refused before it was planned
  std::string reason;  // why the mesh cannot be used or is not worth it; "": it can
};

// Hears, before each mesh is examined, how many of how many are done.
using SearchProgress = std::function<void(size_t done, size_t all, const parallel::Mesh& next)>;

// All meshes of `world_size` ranks: first those that fit, by the predicted time for one sample,
// then the others. With Planner::sheet the search may also change parallelism.zero_stage,
// zero_ranks, microbatches and pipeline_schedule, training.micro_batch_size and recompute: where a
// mesh does not fit, and for the fastest few meshes. It then plans no mesh that cannot be the
// fastest, as far as the computing of its tensor slices and the bubble of its pipeline tell, and
// none with very many micro-batches.
std::vector<Candidate> search(const config::Config& config, int world_size, const Planner& planner,
                              const SearchProgress& progress = nullptr);

// The fastest mesh. Throws ConfigurationError if none can be used.
const Candidate& best_of(const std::vector<Candidate>& candidates);

// The keys that a search may set, with the values of the configuration: "parallelism.data = 2,
// ...".
std::string chosen_keys(const config::Config& config);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_SEARCH_H_
