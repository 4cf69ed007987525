// Recomputes activations for the backward pass instead of keeping them.
#ifndef RUNTIME_GRAPH_RECOMPUTE_H_
#define RUNTIME_GRAPH_RECOMPUTE_H_

#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::graph {

// Gradient checkpointing (Chen et al., "Training deep nets with sublinear memory cost", 2016). An
// output of a block's forward nodes (those of layer "<block>" or "<block>.*") is kept only if
// forward nodes outside of the block read it. Backward nodes that need the other outputs read
// copies; copies of the block's nodes compute these right before the first such backward node. No
// name in `blocks` may lie inside another. Equivalent to: torch.utils.checkpoint.
//
// Runs on a graph whose kernels and layouts have been chosen, so that the copied nodes run the same
// kernels and produce the same bits. Only the original nodes update running statistics. Collectives
// of a block are copied too; each copy gets a token of its own, the number that pairs its start
// with its wait.
void recompute(Graph& graph, const std::vector<std::string>& blocks);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_RECOMPUTE_H_
