// Keeps the rows of plugins' operations for a graph, by name.
#include "runtime/graph/operation_set.h"

#include <memory>
#include <utility>

namespace runtime::graph {

void OperationSet::add(OpenOperation operation) {
  std::string name = operation.forward.op;
  operations_.insert_or_assign(std::move(name), std::move(operation));
}

const OpenOperation* OperationSet::find(std::string_view op) const {
  const auto found = operations_.find(op);
  return found == operations_.end() ? nullptr : &found->second;
}

const Formula* OperationSet::row(std::string_view op) const {
  if (const OpenOperation* const forward = find(op))
    return forward->forward.text.empty() ? nullptr : &forward->forward;
  if (!op.ends_with(kOpenBackward)) return nullptr;
  const OpenOperation* const of =
      find(op.substr(0, op.size() - std::string_view(kOpenBackward).size()));
  return of == nullptr || of->gradient != OpenGradient::kFormula ? nullptr : &of->backward;
}

void add_operation(Graph& graph, OpenOperation operation) {
  auto set = graph.operations == nullptr ? std::make_shared<OperationSet>()
                                         : std::make_shared<OperationSet>(*graph.operations);
  set->add(std::move(operation));
  graph.operations = std::move(set);
}

}  // namespace runtime::graph
