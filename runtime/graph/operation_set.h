// Operations that plugins bring: rows like those of the table of compositions, which belong to one
// graph.
#ifndef RUNTIME_GRAPH_OPERATION_SET_H_
#define RUNTIME_GRAPH_OPERATION_SET_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/graph/operation.h"

namespace runtime::graph {

// How the gradient of an open operation is computed.
enum class OpenGradient {
  kNone,     // not at all: the operation is for evaluation
  kFormula,  // by OpenOperation::backward
  kKernel,   // by the device, under the name <op>_backward
  kDerived,  // by the gradients of the operations that the formula consists of
};

// An operation of a plugin. Its name is "<plugin>.<name>"; no other operation has a dot.
struct OpenOperation {
  Formula forward;   // `text` is empty if only devices compute it
  Formula backward;  // of kFormula
  OpenGradient gradient = OpenGradient::kNone;
  Kind kind = Kind::kOpaque;
  // The dims of the output, where there is no formula from which they follow.
  std::function<Dims(const std::vector<Dims>& inputs, rt_dtype dtype,
                     const std::vector<Attribute>& attributes)>
      shape = {};
};

// What the name of a backward operation ends with.
inline constexpr const char* kOpenBackward = "_backward";

// The open operations of a graph. Copies of a graph share their set, which never changes.
class OperationSet {
 public:
  void add(OpenOperation operation);
  // nullptr if there is none of this name.
  const OpenOperation* find(std::string_view op) const;
  // The row of an operation, or of the backward operation of one; nullptr if there is none.
  const Operation* row(std::string_view op) const;

 private:
  std::map<std::string, OpenOperation, std::less<>> operations_;
  std::map<std::string, Operation, std::less<>> rows_;
};

// Makes the operation known to the graph.
void add_operation(Graph& graph, OpenOperation operation);

// The row of an operation in the graph; null if there is none.
const Operation* find_operation(const Graph& graph, std::string_view op);
// The row of what a node computes. All collectives share one. Throws InternalError if there is
// none.
const Operation& operation_of(const Graph& graph, const Node& node);
inline Kind kind_of(const Graph& graph, const Node& node) { return operation_of(graph, node).kind; }

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_OPERATION_SET_H_
