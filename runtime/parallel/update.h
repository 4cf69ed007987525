// The optimizer's update in the data-parallel pass.
#ifndef RUNTIME_PARALLEL_UPDATE_H_
#define RUNTIME_PARALLEL_UPDATE_H_

#include "runtime/graph/rewriter.h"
#include "runtime/parallel/distribution.h"

namespace runtime::parallel {

// Appends `waits` (the waits for gradients) and `updates` (nodes of phase kUpdate of the
// undistributed step) to the graph. Where the update allows it, each bucket is updated as soon as
// its gradients arrive. With zero_stage a rank updates its ZeRO partition only; below stage 3 the
// parameters are all-gathered afterwards. The n-th optimizer among `updates`, and weight decay in
// front of it, is for parameter group n of each bucket; all others are for whole buckets. Throws
// Error if the update has an operation that cannot be cut.
void distribute_update(graph::Graph& graph, graph::Rewriter& rewriter, const StepBuffers& buffers,
                       const DistributeOptions& options, graph::NodeList waits,
                       graph::NodeList updates);

// The same for one rank and a graph that consists of an update only.
void cut_update(graph::Graph& graph, const StepBuffers& buffers);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_UPDATE_H_
