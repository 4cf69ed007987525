// ZeRO's second and third stage: gradients and parameters of which a rank of the data axis holds
// its part only. Rajbhandari, Rasley, Ruwase and He, "ZeRO: memory optimizations toward training
// trillion parameter models", 2020.
#ifndef RUNTIME_PARALLEL_ZERO_H_
#define RUNTIME_PARALLEL_ZERO_H_

#include <vector>

#include "runtime/parallel/distribute.h"
#include "runtime/parallel/emit.h"

namespace runtime::parallel {

// Stage 2, before the step is replicated: the gradients' buffer becomes the rank's shard (its parts
// of the buckets one behind the other), and forward and backward write to temporaries instead, one
// for each bucket, which are returned.
std::vector<graph::ValueId> split_gradients(graph::Graph& graph, Emit& emit,
                                            const StepBuffers& buffers,
                                            const DistributeOptions& options);

// Zeros where none of the nodes writes to a bucket of these: its padding must not count.
void fill_gaps(graph::Graph& graph, Emit& emit, graph::ValueId bucket, const NodeList& nodes,
               NodeList& out);

// Stage 3: the parameters' buffers become the rank's shards. Ahead of a use each bucket is gathered
// into a temporary. It is gathered again for a use behind which two other buckets' turns lie, for
// backward above all. With `overlap` a gather starts when the bucket before it comes into use, so
// that three are in memory at most (more if one node reads several). Copies of parameters in
// foreign layouts are temporaries too.
void gather_parameters(graph::Graph& graph, Emit& emit, const StepBuffers& buffers,
                       const DistributeOptions& options, NodeList& nodes);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_ZERO_H_
