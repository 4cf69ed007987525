// Moves post-operations out of nodes that no candidate of the device runs with them.
#include <algorithm>
#include <optional>

#include "runtime/error.h"
#include "runtime/graph/fuse.h"

namespace runtime::graph {

namespace {

// Whether the target has a candidate with canonical layouts or with layouts of its own choice.
bool is_offered(const Graph& graph, Target& target, const Node& node) {
  for (const uint64_t layout : {RT_LAYOUT_CANONICAL, RT_LAYOUT_ANY}) {
    const std::vector<uint64_t> in(node.inputs.size(), layout), out(node.outputs.size(), layout);
    if (!target.candidates(graph, node, in, out).empty()) return true;
  }
  return false;
}

const char* operation_of(const PostOp& post) {
  switch (post.kind) {
    case RT_POST_ACTIVATION:
      return RT_OP_ACTIVATION;
    case RT_POST_ACTIVATION_BACKWARD:
      return RT_OP_ACTIVATION_BACKWARD;
    default:
      return RT_OP_ADD;
  }
}

// A temporary shaped like the node's first output.
ValueId temporary(Graph& graph, const Node& node) {
  Value value = graph.value(node.outputs[0]);
  value.kind = ValueKind::kTemporary;
  value.base = kNone;
  value.offset = 0;
  return graph.add_value(std::move(value));
}

}  // namespace

Node split_last_post_op(Graph& graph, Node& node) {
  const PostOp post = node.post_ops.back();
  Node last;
  last.op = operation_of(post);
  last.layer = node.layer;
  last.phase = node.phase;
  last.origin = node.origin;
  last.outputs = {node.outputs[0]};
  node.outputs[0] = temporary(graph, node);
  last.inputs = {node.outputs[0]};
  // Operands of post-operations are appended in order, so this is the last input.
  if (post.operand >= 0) {
    last.inputs.push_back(node.inputs.at(post.operand));
    node.inputs.erase(node.inputs.begin() + post.operand);
  }
  if (post.function != 0) last.attributes = {{RT_ATTR_FUNCTION, int64_t{post.function}}};
  node.post_ops.pop_back();
  return last;
}

void unfuse(Graph& graph, Target& target) {
  std::vector<Node> before = std::move(graph.nodes);
  graph.nodes.clear();
  for (Node& node : before) {
    std::vector<Node> split;
    while (!node.post_ops.empty() && !is_offered(graph, target, node)) {
      split.push_back(split_last_post_op(graph, node));
    }
    graph.nodes.push_back(std::move(node));
    std::move(split.rbegin(), split.rend(), std::back_inserter(graph.nodes));
  }
}

}  // namespace runtime::graph
