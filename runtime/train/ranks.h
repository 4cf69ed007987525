// What a configuration becomes on so many ranks.
#ifndef RUNTIME_TRAIN_RANKS_H_
#define RUNTIME_TRAIN_RANKS_H_

#include "runtime/config/config.h"
#include "runtime/parallel/mesh.h"

namespace runtime::train {

// parallelism.data x tensor x pipeline. Throws ConfigurationError naming degrees that would fit if
// so many ranks are no such mesh.
parallel::Mesh mesh_of(const config::Parallelism& parallelism, int world_size);

// What depends on the number of ranks: training.global_batch_size. Throws ConfigurationError where
// the configuration does not fit so many.
config::Config resolve_ranks(config::Config config, int world_size);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RANKS_H_
