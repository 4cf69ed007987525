// ZeRO stages 2 and 3: a rank of the data axis holds only its partition of the gradients, and with
// stage 3 of the parameters. Rajbhandari, Rasley, Ruwase and He, "ZeRO: memory optimizations toward
// training trillion parameter models", 2020.
#ifndef RUNTIME_PARALLEL_ZERO_H_
#define RUNTIME_PARALLEL_ZERO_H_

#include "runtime/graph/rewriter.h"
#include "runtime/parallel/distribution.h"

namespace runtime::parallel {

// Stages 2 and 3, before repeat_step(): forward and backward write gradients to temporaries, one
// for each bucket (buffers.bucket_gradients), because the gradient buffer will only have room for
// the rank's ZeRO partition. What several stages of a pipeline have parts of is kept whole, as
// state, until the parts are added. Below stage 2 nothing happens.
void partition_gradients(graph::Graph& graph, StepBuffers& buffers,
                         const DistributeOptions& options);

// Shrinks a flat buffer to the ZeRO partitions of all buckets, one behind the other.
void shrink_to_partition(graph::Graph& graph, graph::ValueId flat, const FlatLayout& layout,
                         int world_size);

// Inserts nodes that zero every byte of a bucket of whole gradients that no node writes, so that
// its padding does not count in the reduction. They come before the first of `nodes` that writes
// into the bucket (`writers` are their indices), because each begins at a multiple of `alignment`
// bytes, which may lie in front of the gap, inside a gradient.
void fill_gaps(graph::Graph& graph, graph::Rewriter& rewriter, graph::ValueId bucket,
               uint64_t alignment, const graph::NodeList& nodes, const std::vector<size_t>& writers,
               graph::Insertions& insertions);

// Stage 3, after repeat_step(): the parameter buffers shrink to the rank's ZeRO partitions, and
// each bucket is all-gathered into a temporary ahead of a use. A bucket is gathered again if the
// uses of two other buckets lie in between, as they do before the backward pass. With `overlap` a
// gather starts when the previous bucket comes into use, so that at most three buckets are in
// memory (more if one node reads several). Copies of parameters in foreign layouts become
// temporaries too. Below stage 3 nothing happens. Equivalent to: PyTorch's
// FullyShardedDataParallel.
void gather_parameters(graph::Graph& graph, const StepBuffers& buffers,
                       const DistributeOptions& options);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_ZERO_H_
