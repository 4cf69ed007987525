// ZeRO stages 2 and 3: a rank of the data axis holds only its partition of the gradients, and with
// stage 3 of the parameters. Rajbhandari, Rasley, Ruwase and He, "ZeRO: memory optimizations toward
// training trillion parameter models", 2020.
#ifndef RUNTIME_PARALLEL_ZERO_H_
#define RUNTIME_PARALLEL_ZERO_H_

#include <vector>

#include "runtime/parallel/distribute.h"
#include "runtime/parallel/emit.h"

namespace runtime::parallel {

// Stage 2, before the step is replicated: the gradient buffer shrinks to the rank's ZeRO partitions
// of all buckets, one behind the other. Forward and backward write to temporaries instead, one for
// each bucket, which are returned by bucket.
std::vector<graph::ValueId> split_gradients(graph::Graph& graph, Emit& emit,
                                            const StepBuffers& buffers,
                                            const DistributeOptions& options);

// Appends nodes that zero every byte of a bucket of whole gradients that no node writes, so that
// its padding does not count in the reduction.
void fill_gaps(graph::Graph& graph, Emit& emit, graph::ValueId bucket, const NodeList& nodes,
               NodeList& out);

// Stage 3: the parameter buffers shrink to the rank's ZeRO partitions, and each bucket is
// all-gathered into a temporary ahead of a use. A bucket is gathered again if the uses of two other
// buckets lie in between, as they do before the backward pass. With `overlap` a gather starts when
// the previous bucket comes into use, so that at most three buckets are in memory (more if one node
// reads several). Copies of parameters in foreign layouts become temporaries too. Equivalent to:
// PyTorch's FullyShardedDataParallel.
void gather_parameters(graph::Graph& graph, Emit& emit, const StepBuffers& buffers,
                       const DistributeOptions& options, NodeList& nodes);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_ZERO_H_
