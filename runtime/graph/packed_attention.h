// Attention for devices whose plugins know only the packed form of it, as those built before minor
// version 2 of the contract.
#ifndef RUNTIME_GRAPH_PACKED_ATTENTION_H_
#define RUNTIME_GRAPH_PACKED_ATTENTION_H_

#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/graph/target.h"

namespace runtime::graph {

// Where the target refuses `dot_product_attention` or its gradient and supports `attention`, the
// latter takes their place, between a concatenation and slices, if the node asks for nothing that
// `attention` does not have. Returns a line for the log, or none.
std::vector<std::string> pack_attention(Graph& graph, Target& target);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_PACKED_ATTENTION_H_
