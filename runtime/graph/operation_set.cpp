// Keeps the rows of plugins' operations for a graph, by name.
#include "runtime/graph/operation_set.h"

#include <memory>
#include <utility>

#include "runtime/error.h"
#include "runtime/graph/rules.h"
#include "runtime/graph/scanner.h"

namespace runtime::graph {

namespace {

GradientRule* gradient_of(const OpenOperation& operation, const Formula& formula) {
  const bool none = operation.gradient == OpenGradient::kNone || &formula == &operation.backward;
  return none ? no_gradient : backward_operation;
}

// Every rank computes an open operation as a whole, in float32, and no post-operation follows.
Operation row_of_open(const OpenOperation& operation, const Formula& formula) {
  Operation row = {formula.op,
                   operation.kind,
                   {gradient_of(operation, formula), SplitRule::kWhole, Precision::kFloat32},
                   Replication::kCopied,
                   is_update(operation.kind) ? Composed::kLate : Composed::kAtOnce,
                   PostOperations::kAlone};
  row.defined_by = formula.op.starts_with(kOwnOperation) ? DefinedBy::kCore : DefinedBy::kPlugin;
  row.formula = formula;
  return row;
}

}  // namespace

void OperationSet::add(OpenOperation operation) {
  std::string name = operation.forward.op;
  for (const Formula* formula : {&operation.forward, &operation.backward}) {
    if (!formula->op.empty()) rows_.insert_or_assign(formula->op, row_of_open(operation, *formula));
  }
  operations_.insert_or_assign(std::move(name), std::move(operation));
}

const OpenOperation* OperationSet::find(std::string_view op) const {
  const auto found = operations_.find(op);
  return found == operations_.end() ? nullptr : &found->second;
}

const Operation* OperationSet::row(std::string_view op) const {
  const auto found = rows_.find(op);
  return found == rows_.end() ? nullptr : &found->second;
}

void add_operation(Graph& graph, OpenOperation operation) {
  auto set = graph.operations == nullptr ? std::make_shared<OperationSet>()
                                         : std::make_shared<OperationSet>(*graph.operations);
  set->add(std::move(operation));
  graph.operations = std::move(set);
}

const Operation* find_operation(const Graph& graph, std::string_view op) {
  return is_open(op) && graph.operations != nullptr ? graph.operations->row(op)
                                                    : find_operation(op);
}

const Operation& operation_of(const Graph& graph, const Node& node) {
  const Operation* const row =
      node.collective ? find_operation(kCollective) : find_operation(graph, node.op);
  if (row == nullptr)
    throw InternalError("layer '" + node.layer + "': operation '" + node.op + "' has no row");
  return *row;
}

}  // namespace runtime::graph
