// What a configuration means for a given number of ranks.
#ifndef RUNTIME_STEP_RANKS_H_
#define RUNTIME_STEP_RANKS_H_

#include "runtime/config/config.h"
#include "runtime/parallel/mesh.h"

namespace runtime::step {

// The mesh parallelism.data x tensor x pipeline. Throws ConfigurationError, which names degrees
// that fit, if `world_size` ranks do not form such a mesh.
parallel::Mesh mesh_of(const config::Parallelism& parallelism, int world_size);

// Sets what depends on the number of ranks: training.global_batch_size. Throws ConfigurationError
// if the configuration does not fit that number.
config::Config resolve_ranks(config::Config config, int world_size);

// Whether training is stale-synchronous (train/asynchronous).
bool is_asynchronous(const config::Config& config, int world_size);

}  // namespace runtime::step

#endif  // RUNTIME_STEP_RANKS_H_
