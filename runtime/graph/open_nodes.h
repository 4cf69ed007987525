// Operations that plugins bring, as nodes: from their texts to the graph.
#ifndef RUNTIME_GRAPH_OPEN_NODES_H_
#define RUNTIME_GRAPH_OPEN_NODES_H_

#include <string>
#include <vector>

#include "runtime/graph/build.h"
#include "runtime/graph/operation_set.h"

namespace runtime::graph {

// An operation from the texts of a plugin. `gradient` assigns d<input> for each input, or is empty.
// Throws DeviceError, which names the plugin, the operation and the place, if the signature is
// wrong. `attributes` are the names of those that nodes have.
OpenOperation make_open_operation(Formula forward, const std::string& gradient,
                                  bool backward_kernel, const std::vector<std::string>& attributes);

// A loss that compares numbers, in the form of an operation of a plugin: y[N,D*], target[N,D*],
// weight[N] -> the weighted sum of l[N,1] [1]. The formulas are those of a row of config::losses();
// a sample of weight 0 adds nothing to the sum or the gradient, whatever it is.
OpenOperation make_open_loss(const std::string& op, const std::string& formula,
                             const std::string& gradient, const std::vector<Attribute>& attributes);

// Throws DeviceError, at the signature of the formula.
[[noreturn]] void fault(const Formula& formula, const std::string& what);

// Appends a node of an open operation that the graph of `build` knows; its output has the type of
// the first input. Throws DeviceError if a formula does not fit the operands.
ValueId add_open_node(Build& build, const std::string& op, const std::vector<ValueId>& inputs,
                      const std::vector<Attribute>& attributes);

// As flops(), also for open operations: what their formulas take; 0 for those without one.
double flops_of_node(const Graph& graph, const Node& node);

// Puts the nodes of their formulas in place of the open operations whose gradient is derived, so
// that differentiate() meets only operations that it knows.
void expand_derived(Graph& graph);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_OPEN_NODES_H_
