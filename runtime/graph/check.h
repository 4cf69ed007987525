// Proves after each pass that a graph is sound, so that a fault is found in the pass that made it.
#ifndef RUNTIME_GRAPH_CHECK_H_
#define RUNTIME_GRAPH_CHECK_H_

#include <string>

#include "runtime/graph/graph.h"

namespace runtime::graph {

// What is wrong with the graph, naming the first node at fault; "" if it is sound:
// - Operands exist, and views lie inside their base.
// - A node reads only inputs, persistent values and what an earlier node has written.
// - A temporary or an output has one writer, besides nodes that change it in place; ranges of one
//   buffer may have one each.
// - Every collective that is started is waited for once, later, with the same results.
// - What a backward node reads as `saved`, an earlier node has written.
// - Shapes and types of operands fit the operation, for operations that passes add: copies, sums,
//   products, casts, concatenations and collectives.
std::string fault_of(const Graph& graph);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_CHECK_H_
