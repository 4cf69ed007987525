// The key under which the measured time of a node is kept.
#include "runtime/exec/node_times.h"

#include "runtime/graph/print.h"

namespace runtime::exec {

std::string node_key(const graph::Graph& graph, const graph::Node& node, bool updates) {
  std::string key = graph::signature(graph, node) + ' ' + node.implementation;
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (const graph::ValueId v : *operands) key += ':' + std::to_string(graph.value(v).layout);
  }
  if (node.phase == graph::Phase::kPack && updates) key += " again";
  return key;
}

}  // namespace runtime::exec
