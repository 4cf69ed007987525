// The table of compositions: every operation that the core computes with others where a device
// refuses it.
#ifndef RUNTIME_GRAPH_COMPOSITIONS_H_
#define RUNTIME_GRAPH_COMPOSITIONS_H_

#include <string_view>
#include <vector>

#include "runtime/graph/formula_row.h"
#include "runtime/graph/graph.h"

namespace runtime::graph {

// All rows of the table. They use the base set of plugins/operations.md and each other. A backward
// operation knows the terms of the forward operation whose saved data it would read.
const std::vector<Formula>& compositions();

// The row of that name; nullptr if there is none.
const Formula* find_formula(std::string_view op);

// The formulas of `transpose` and `concat`, for the number of the node's dimensions or inputs.
Formula transpose_formula(const Graph& graph, const Node& node);
Formula concat_formula(const Graph& graph, const Node& node);
// The formulas of `gated_activation` and its gradient, for the function of the node, and that of
// `rotary`, which copies the columns that are not turned.
Formula gated_activation_formula(const Graph& graph, const Node& node);
Formula gated_activation_backward_formula(const Graph& graph, const Node& node);
Formula rotary_formula(const Graph& graph, const Node& node);
// Those of dot_product_attention and its gradient, which leave out what the node does not ask for.
Formula dot_product_attention_formula(const Graph& graph, const Node& node);
Formula dot_product_attention_backward_formula(const Graph& graph, const Node& node);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_COMPOSITIONS_H_
