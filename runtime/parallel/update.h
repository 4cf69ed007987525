// The optimizer's part of the data-parallel pass.
#ifndef RUNTIME_PARALLEL_UPDATE_H_
#define RUNTIME_PARALLEL_UPDATE_H_

#include "runtime/parallel/distribute.h"
#include "runtime/parallel/emit.h"

namespace runtime::parallel {

// Appends `waits` and `updates` (nodes of phase kUpdate of the undistributed step) to the graph:
// bucket by bucket as they arrive where the update allows it; with zero_stage for the rank's own
// parts only, whose parameters are gathered afterwards below stage 3. Vectors (Bucket::vectors) get
// no weight decay. Throws Error if the update has an operation that cannot be cut.
void distribute_update(graph::Graph& graph, Emit& emit, const StepBuffers& buffers,
                       const DistributeOptions& options, NodeList waits, NodeList updates);

// The same for a graph that is nothing but an update on one rank.
void cut_update(graph::Graph& graph, const StepBuffers& buffers);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_UPDATE_H_
