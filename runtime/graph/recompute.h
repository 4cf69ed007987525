// Activations that are computed again for the backward pass instead of being kept.
#ifndef RUNTIME_GRAPH_RECOMPUTE_H_
#define RUNTIME_GRAPH_RECOMPUTE_H_

#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::graph {

// Gradient checkpointing (Chen et al., "Training deep nets with sublinear memory cost", 2016). What
// the forward nodes of a block (those of layer "<block>" or "<block>.*") write is kept only if
// forward nodes outside of the block read it; the backward nodes that need the rest read copies,
// which copies of the block's nodes make right before the first of them. `blocks`: names, of which
// none lies in another.
//
// Runs on a graph whose kernels and layouts have been chosen, so that the copies have the same and
// give the same bits. Running statistics are updated by the original alone. Collectives of a block
// are copied too, with tokens of their own.
void recompute(Graph& graph, const std::vector<std::string>& blocks);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_RECOMPUTE_H_
