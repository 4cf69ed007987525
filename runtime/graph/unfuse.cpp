// Moves post-operations out of nodes that no candidate of the device runs with them.
#include <algorithm>
#include <utility>

#include "runtime/graph/fuse.h"
#include "runtime/graph/layout.h"
#include "runtime/graph/rewriter.h"

namespace runtime::graph {

namespace {

// Whether the target has a candidate with canonical layouts or with layouts of its own choice.
bool is_offered(const Graph& graph, Target& target, const Node& node) {
  const std::vector<uint64_t> in(node.inputs.size(), RT_LAYOUT_CANONICAL),
      out(node.outputs.size(), RT_LAYOUT_CANONICAL);
  return !target.candidates(graph, node, in, out).empty() ||
         !target
              .candidates(graph, node, any_layouts(graph, node, node.inputs),
                          any_layouts(graph, node, node.outputs))
              .empty();
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

}  // namespace

Node split_last_post_op(Graph& graph, Node& node) {
  const PostOp post = node.post_ops.back();
  Rewriter rewriter(graph);
  if (post.kind == RT_POST_STORE) {
    Node copy = rewriter.node(RT_OP_COPY, node, {node.outputs[0]}, {node.outputs.back()});
    node.outputs.pop_back();
    node.post_ops.pop_back();
    return copy;
  }
  const ValueId result = node.outputs[0];
  if (node.post_ops.size() > 1 && node.post_ops.end()[-2].kind == RT_POST_STORE) {
    // What is stored is what `post` reads, so nothing needs to be stored beside it.
    node.outputs[0] = node.outputs.back();
    node.outputs.pop_back();
    node.post_ops.erase(node.post_ops.end() - 2);
  } else {
    node.outputs[0] = rewriter.temporary(result);
  }
  Node last = rewriter.node(operation_of(post), node, {node.outputs[0]}, {result});
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
  for (Node& node : std::exchange(graph.nodes, {})) {
    NodeList split;
    while (!node.post_ops.empty() && !is_offered(graph, target, node)) {
      split.push_back(split_last_post_op(graph, node));
    }
    graph.nodes.push_back(std::move(node));
    std::move(split.rbegin(), split.rend(), std::back_inserter(graph.nodes));
  }
}

}  // namespace runtime::graph
