// Proves after each pass that a graph is sound, so that a fault is found in the pass that made it.
#ifndef RUNTIME_GRAPH_CHECK_H_
#define RUNTIME_GRAPH_CHECK_H_

#include <string>

#include "runtime/graph/graph.h"

namespace runtime::graph {

// Returns what is wrong with the graph, naming the first node at fault; "" if it is sound:
// - Operands exist, and views lie inside their base.
// - A node reads only inputs, persistent values and what an earlier node has written.
// - Only one node writes a temporary or an output, apart from nodes that change it in place. Each
//   view of a buffer may have a writer of its own.
// - Every node that starts a collective is followed by one node that waits for it and lists the
//   same outputs.
// - What a backward node reads as `saved`, an earlier node has written.
// - Shapes and types of operands fit the operation, for operations that passes add: copies, sums,
//   products, casts, concatenations and collectives.
std::string fault_of(const Graph& graph);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_CHECK_H_
