// The pass that computes several virtual shards or micro-batches in one step.
#ifndef RUNTIME_PARALLEL_REPEAT_STEP_H_
#define RUNTIME_PARALLEL_REPEAT_STEP_H_

#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/parallel/distribution.h"

namespace runtime::parallel {

// Runs on a graph whose kernels have been chosen: copies of a node share its kernel. Forward and
// backward appear once for each virtual shard (in lockstep) or micro-batch (in the order of the
// pipeline's schedule); the nodes of the update stay after them.
// - `batch_norm_statistics` and `batch_norm_backward_statistics` are gathered before they are
//   merged (over virtual shards, and with sync_batch_norm over ranks).
// - With a pipeline the losses of the micro-batches are added up and broadcast to all its ranks.
// - Each virtual shard has a gradient buffer of its own, while all micro-steps and micro-batches
//   accumulate their gradients in one buffer.
// Returns the inputs of each copy.
std::vector<ShardValues> repeat_step(graph::Graph& graph, StepBuffers& buffers,
                                     const ShardValues& inputs, const DistributeOptions& options);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_REPEAT_STEP_H_
