// The last data-parallel pass: the collectives of a step, and its update.
#ifndef RUNTIME_PARALLEL_SCHEDULE_COLLECTIVES_H_
#define RUNTIME_PARALLEL_SCHEDULE_COLLECTIVES_H_

#include "runtime/graph/graph.h"
#include "runtime/parallel/distribution.h"

namespace runtime::parallel {

// Runs after repeat_step() and the passes of zero.h.
// - Each bucket is all-reduced as soon as its last gradient is complete. The last parameters come
//   first, and the loss travels with their bucket.
// - With zero_stage 1 a bucket is reduce-scattered and the parameters are all-gathered after the
//   update; from stage 2 on a bucket's whole gradients are a temporary until then.
// - With virtual shards, every rank sends their gradients to the ranks that own the respective
//   slice of the bucket, and each owner adds them in one fixed binary tree.
// - The update is split by bucket unless it needs the norm of the whole gradient.
// Sets buffers.loss. Throws Error if the graph has operations that it cannot split. Equivalent to:
// the reducer of PyTorch's DistributedDataParallel with its buckets, or DeepSpeed's ZeRO optimizer.
void schedule_collectives(graph::Graph& graph, StepBuffers& buffers,
                          const DistributeOptions& options);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_SCHEDULE_COLLECTIVES_H_
