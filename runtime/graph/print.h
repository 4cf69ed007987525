// A graph as text that diffs well, and as a drawing.
#ifndef RUNTIME_GRAPH_PRINT_H_
#define RUNTIME_GRAPH_PRINT_H_

#include <string>

#include "runtime/graph/graph.h"

namespace runtime::graph {

// One line for each value that outlives the step, then one for each node, in order:
//   forward   fc1   %7 [256, 120] = matmul(%3 [256, 400], %5 [120, 400]) transpose_b=1
// A view is written with its base and the bytes at which it begins: %9@%4+128. Values keep their
// numbers through all passes. Equivalent to: printing torch.fx.Graph, or LLVM's -print-after-all.
std::string to_text(const Graph& graph);

// For Graphviz (dot -Tsvg): a box for each node, an arrow from the last writer of each operand.
std::string to_dot(const Graph& graph);

// Text that identifies a node except for names: operation, types, shapes, attributes,
// post-operations.
std::string signature(const Graph& graph, const Node& node);

// The name of a type, "float32"; of a phase, "forward".
std::string name_of(rt_dtype dtype);
const char* name_of(Phase phase);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_PRINT_H_
