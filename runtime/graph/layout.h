// Chooses layout and algorithm of every node over the whole graph and inserts the copies between
// layouts.
#ifndef RUNTIME_GRAPH_LAYOUT_H_
#define RUNTIME_GRAPH_LAYOUT_H_

#include "runtime/graph/graph.h"
#include "runtime/graph/target.h"

namespace runtime::graph {

struct LayoutOptions {
  bool measure = false;  // candidates are measured on the device instead of estimated
};

// One candidate for each node, in the order of the nodes.
using LayoutDecision = std::vector<Candidate>;

// Minimises the sum of the nodes' times and of the copies between different layouts, by repeated
// local improvement from several starting points (the problem is a discrete energy over a sparse
// graph; see Anderson and Gregg, "Optimal DNN primitive selection with partitioned boolean
// quadratic programming", 2018, for the exact formulation, which is NP-hard). Throws DeviceError if
// the target offers no layout for a node.
LayoutDecision decide_layouts(const Graph& graph, Target& target, const LayoutOptions& options);

// Gives each node its algorithm and inserts the copies. Inputs, outputs, parameters, state and
// views stay canonical. A parameter wanted in a foreign layout gets a kPacked copy that a
// Phase::kPack node at the front makes.
void apply_layouts(Graph& graph, Target& target, const LayoutDecision& decision);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_LAYOUT_H_
