// Reverse-mode automatic differentiation: appends the backward operations of a graph.
#ifndef RUNTIME_GRAPH_AUTODIFF_H_
#define RUNTIME_GRAPH_AUTODIFF_H_

#include <map>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::graph {

// Appends to `graph` the operations that compute d(loss)/d(v) * dloss for each v in `wanted`, in
// backward order. loss: [1]. dloss: [1], the gradient of what is minimised with respect to the loss
// (1, or a loss scale). Returns the gradient value of each wanted value, shaped like it; a value
// that the loss does not depend on is left out. Throws Error for an operation that has no gradient
// (reduce max, cast to an integer...) on the way to a wanted value.
std::map<ValueId, ValueId> differentiate(Graph& graph, ValueId loss, ValueId dloss,
                                         const std::vector<ValueId>& wanted);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_AUTODIFF_H_
