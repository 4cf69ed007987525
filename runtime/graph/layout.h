// Chooses layout and algorithm of every node over the whole graph and inserts the copies between
// layouts.
#ifndef RUNTIME_GRAPH_LAYOUT_H_
#define RUNTIME_GRAPH_LAYOUT_H_

#include "runtime/graph/graph.h"
#include "runtime/graph/target.h"

namespace runtime::graph {

// The layouts of operands of the node for a query in which the target may choose: RT_LAYOUT_ANY for
// every operand that may have a foreign layout (any but the canonical row-major one), as
// plugins/operations.md says, and the canonical layout for all others.
std::vector<uint64_t> any_layouts(const Graph& graph, const Node& node,
                                  const std::vector<ValueId>& operands);

// Returns the temporary that `v` is a view of, if the view has all of its elements and the same
// last dimension (for example [32, 10] of [2, 16, 10]), and otherwise `v` itself. Both then have
// the same rows, vectors along the last dimension, so that they are the same in memory also if the
// temporary has a row layout (rt/sdk/foreign_layout.h).
ValueId owner_of_rows(const Graph& graph, ValueId v);

// Chooses candidates with a small sum of node times and of copies between different layouts, by
// repeated local improvement from several starting points. The problem is a discrete energy over a
// sparse graph; the exact formulation is NP-hard (Anderson and Gregg, "Optimal DNN primitive
// selection with partitioned boolean quadratic programming", 2018). In a graph without backward and
// update nodes, copies of parameters cost nothing, because they are made once for many runs. Throws
// DeviceError if the target offers no layout for a node.
LayoutDecision decide_layouts(const Graph& graph, Target& target);

// Gives each node its algorithm and inserts the copies. Inputs, outputs, parameters, state and
// views stay canonical, but views may see the rows of their owner. A parameter that a node reads in
// a foreign layout gets a kPacked copy, which a Phase::kPack node at the front of the graph makes;
// so does a kPacked copy of a parameter.
void apply_layouts(Graph& graph, Target& target, const LayoutDecision& decision);

// The pass: decide_layouts(), or the decision that the target remembers if it still offers every
// candidate of it, then apply_layouts().
void choose_layouts(Graph& graph, Target& target);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_LAYOUT_H_
