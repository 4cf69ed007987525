// Composes operations that a device refuses from others, by the formulas of plugins/operations.md.
#include <functional>
#include <set>
#include <unordered_map>
#include <utility>

#include "runtime/error.h"
#include "runtime/graph/build.h"
#include "runtime/graph/fuse.h"

namespace runtime::graph {

namespace {

using Composition = std::function<void(Build&, const Node&)>;

constexpr uint64_t kHeightWidth = 0b110;

void global_avg_pool(Build& b, const Node& n) {
  b.node_into(RT_OP_REDUCE, {n.inputs[0]}, {n.outputs[0]},
              {{RT_ATTR_FUNCTION, int64_t{RT_REDUCE_MEAN}},
               {RT_ATTR_AXES, static_cast<int64_t>(kHeightWidth)}});
}

void global_avg_pool_backward(Build& b, const Node& n) {
  Graph& g = b.graph();
  const Dims dx = g.value(n.outputs[0]).dims;
  const ValueId dy = b.scale(n.inputs[0], 1.0 / static_cast<double>(dx[1] * dx[2]));
  const ValueId zeros = b.node1(RT_OP_FILL, {}, dx, {{RT_ATTR_VALUE, 0.0}}, g.value(dy).dtype);
  b.node_into(RT_OP_ADD, {zeros, g.reshape(dy, {dx[0], 1, 1, dx[3]})}, {n.outputs[0]});
}

void square_sum(Build& b, const Node& n) {
  const ValueId x = n.inputs[0];
  const ValueId flat = b.graph().reshape(x, {1, element_count(b.graph().value(x).dims)});
  b.node_into(RT_OP_REDUCE, {b.multiply(flat, flat)}, {n.outputs[0]},
              {{RT_ATTR_FUNCTION, int64_t{RT_REDUCE_SUM}}, {RT_ATTR_AXES, int64_t{0b10}}});
}

// [N, ...] -> [N, D]
ValueId as_rows(Build& b, ValueId v) {
  const Dims& d = b.graph().value(v).dims;
  return b.graph().reshape(v, {d[0], element_count(d) / d[0]});
}

ValueId difference(Build& b, const Node& n) {
  const ValueId y = as_rows(b, n.inputs[0]);
  return b.node1(RT_OP_SUBTRACT, {y, as_rows(b, n.inputs[1])}, Dims(b.graph().value(y).dims));
}

void mean_squared_error(Build& b, const Node& n) {
  const ValueId d = difference(b, n);
  const ValueId mean = b.reduce(b.multiply(d, d), RT_REDUCE_MEAN, 0b10);
  b.node_into(RT_OP_REDUCE, {b.multiply(mean, n.inputs[2])}, {b.graph().reshape(n.outputs[0], {})},
              {{RT_ATTR_FUNCTION, int64_t{RT_REDUCE_SUM}}, {RT_ATTR_AXES, int64_t{0b1}}});
}

void mean_squared_error_backward(Build& b, const Node& n) {
  const ValueId d = difference(b, n);
  const Dims rows = b.graph().value(d).dims;
  const ValueId weight =
      b.multiply(b.scale(n.inputs[2], 2.0 / static_cast<double>(rows[1])), n.inputs[3]);
  b.node_into(RT_OP_MULTIPLY, {d, b.graph().reshape(weight, {rows[0], 1})},
              {b.graph().reshape(n.outputs[0], rows)});
}

const std::unordered_map<std::string, Composition>& compositions() {
  static const std::unordered_map<std::string, Composition> kCompositions = {
      {RT_OP_GLOBAL_AVG_POOL, global_avg_pool},
      {RT_OP_GLOBAL_AVG_POOL_BACKWARD, global_avg_pool_backward},
      {RT_OP_SQUARE_SUM, square_sum},
      {RT_OP_MEAN_SQUARED_ERROR, mean_squared_error},
      {RT_OP_MEAN_SQUARED_ERROR_BACKWARD, mean_squared_error_backward},
  };
  return kCompositions;
}

}  // namespace

std::vector<std::string> lower(Graph& graph, Target& target) {
  std::set<std::string> report;
  Build build(graph);
  for (Node& node : std::exchange(graph.nodes, {})) {
    if (node.collective) {
      graph.nodes.push_back(std::move(node));
      continue;
    }
    const Support support = target.support(graph, node);
    if (support.emulated) {
      report.insert(node.op + " of layer '" + node.layer + "' is slow: " + target.name() +
                    " emulates it (" + support.reason + ")");
    }
    if (support.supported) {
      graph.nodes.push_back(std::move(node));
      continue;
    }
    const auto composition = compositions().find(node.op);
    if (composition == compositions().end()) {
      throw DeviceError("layer '" + node.layer + "' needs operation " + node.op + ", which " +
                        target.name() + " refuses: " + support.reason +
                        "; choose another device.backend (runtime devices lists them)");
    }
    build.layer = node.layer;
    build.phase = node.phase;
    const size_t first = graph.nodes.size();
    composition->second(build, node);
    for (size_t i = first; i < graph.nodes.size(); ++i) graph.nodes[i].origin = node.origin;
    report.insert(node.op + " is composed of other operations: " + target.name() + " refuses it (" +
                  support.reason + ")");
  }
  return {report.begin(), report.end()};
}

}  // namespace runtime::graph
