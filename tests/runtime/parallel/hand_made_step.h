// The parts of steps that tests make by hand, and functions that find what passes made of them.
#ifndef TESTS_RUNTIME_PARALLEL_HAND_MADE_STEP_H_
#define TESTS_RUNTIME_PARALLEL_HAND_MADE_STEP_H_

#include <string>
#include <vector>

#include "runtime/graph/operation.h"
#include "tests/runtime/parallel/distribute.h"

namespace runtime::parallel {

struct HandMadeStep {
  graph::Graph graph;
  StepBuffers buffers;
  ShardValues inputs;
};

inline graph::ValueId add(graph::Graph& graph, const std::string& name, graph::ValueKind kind,
                          graph::Dims dims) {
  graph::Value value;
  value.name = name;
  value.kind = kind;
  value.dims = std::move(dims);
  value.bytes = graph::canonical_bytes(value);
  return graph.add_value(value);
}

// A node that is called `name`: an operation, or any other name for one of which nobody asks what
// it computes.
inline graph::Node node(const std::string& name, graph::Phase phase,
                        std::vector<graph::ValueId> inputs, std::vector<graph::ValueId> outputs) {
  graph::Node n;
  n.op = graph::find_operation(name) != nullptr ? name : RT_OP_SCALE;
  n.layer = name;
  n.phase = phase;
  n.inputs = std::move(inputs);
  n.outputs = std::move(outputs);
  return n;
}

using Order = std::vector<std::string>;

// The order of the nodes: "start <layer>", "wait <layer>", or the operation.
inline Order order(const graph::Graph& graph) {
  Order list;
  for (const graph::Node& n : graph.nodes) {
    const std::string& name = n.op == RT_OP_SCALE ? n.layer : n.op;
    list.push_back(!n.collective ? name : (n.collective->wait ? "wait " : "start ") + n.layer);
  }
  return list;
}

}  // namespace runtime::parallel

#endif  // TESTS_RUNTIME_PARALLEL_HAND_MADE_STEP_H_
