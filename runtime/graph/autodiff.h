// Reverse-mode automatic differentiation: appends the backward operations to a graph.
#ifndef RUNTIME_GRAPH_AUTODIFF_H_
#define RUNTIME_GRAPH_AUTODIFF_H_

#include <map>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::graph {

// Appends to `graph` the operations that compute d(loss)/d(v) * dloss for each v in `wanted`, in
// backward order. `loss` and `dloss` have the shape [1]; `dloss` is the gradient of the minimised
// quantity with respect to the loss (1, or a loss scale). Returns, by wanted value, its gradient,
// which has the same shape; a value that the loss does not depend on is left out. Sets Node::origin
// of every node. Throws Error where an operation on the way to a wanted value has no gradient
// (reduce max, for example). Equivalent to: torch.autograd.grad with grad_outputs.
std::map<ValueId, ValueId> differentiate(Graph& graph, ValueId loss, ValueId dloss,
                                         const std::vector<ValueId>& wanted);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_AUTODIFF_H_
