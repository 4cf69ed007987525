// The table of compositions: every operation that the core computes with others where a device
// refuses it.
#ifndef RUNTIME_GRAPH_COMPOSITIONS_H_
#define RUNTIME_GRAPH_COMPOSITIONS_H_

#include <optional>
#include <string>
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

// The formula of a node: its row of the table, or, for `transpose` and `concat`, a formula for the
// number of its dimensions or inputs. nullopt if there is none.
std::optional<Formula> formula_of(const Graph& graph, const Node& node);

// Whether `op` is of the core alone (loss_operations.h, update_operations.h): no plugin knows it.
bool is_always_composed(std::string_view op);

// Whether passes that distribute a step over ranks and micro-batches look for this operation, so
// that it may be composed only behind them.
bool is_composed_late(std::string_view op);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_COMPOSITIONS_H_
