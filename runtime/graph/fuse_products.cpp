// Fusions of matrix products with more than one result. fuse() comes before, so the products have
// their biases already.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "runtime/graph/fuse.h"
#include "runtime/graph/rewriter.h"

namespace runtime::graph {

namespace {

bool has_gradient_of_operand(const Node& node) {
  const int64_t function = integer_attribute(node, RT_ATTR_FUNCTION, 0);
  return node.op == RT_OP_ACTIVATION &&
         (function == RT_ACTIVATION_GELU || function == RT_ACTIVATION_GELU_TANH);
}

bool only_adds(const Node& node) {
  return std::all_of(node.post_ops.begin(), node.post_ops.end(), [](const PostOp& p) {
    return p.kind == RT_POST_BIAS || p.kind == RT_POST_RESIDUAL_ADD;
  });
}

// One sweep over the graph. Nodes that it merges with others are marked and removed at its end.
class Sweep {
 public:
  Sweep(Graph& graph, Target& target) : graph_(graph), target_(target), dead_(graph.nodes.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (ValueId v : graph.nodes[i].inputs) readers_[graph.storage(v)].push_back(i);
    }
  }
  ~Sweep() { remove_marked(graph_.nodes, dead_); }
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  void store_operands() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!dead_[i] && graph_.nodes[i].op == RT_OP_MATMUL) store_operand(i);
    }
  }

 private:
  bool is_plain(ValueId v) const {
    return graph_.value(v).kind == ValueKind::kTemporary && graph_.value(v).base == kNone;
  }

  // The product writes y = gelu(v) together with v, which backward reads.
  void store_operand(size_t at) {
    const Node& node = graph_.nodes[at];
    const ValueId v = node.outputs[0];
    const std::vector<size_t>& readers = readers_[v];
    if (!is_plain(v) || readers.size() < 2 || !only_adds(node)) return;
    const auto found = std::find_if(readers.begin(), readers.end(), [&](size_t r) {
      const Node& reader = graph_.nodes[r];
      return has_gradient_of_operand(reader) && reader.inputs[0] == v &&
             reader.phase == node.phase && graph_.value(reader.outputs[0]).base == kNone;
    });
    if (found == readers.end()) return;
    const Node& activation = graph_.nodes[*found];
    Node fused = node;
    fused.post_ops.push_back({RT_POST_STORE, 0, -1});
    fused.post_ops.push_back(
        {RT_POST_ACTIVATION,
         static_cast<int32_t>(integer_attribute(activation, RT_ATTR_FUNCTION, 0)), -1});
    fused.outputs[0] = activation.outputs[0];
    fused.outputs.push_back(v);
    const Support support = target_.support(graph_, fused);
    if (!support.supported || support.post_ops_fused < fused.post_ops.size()) return;
    dead_[*found] = true;
    graph_.nodes[at] = std::move(fused);
  }

  Graph& graph_;
  Target& target_;
  std::vector<char> dead_;
  std::unordered_map<ValueId, std::vector<size_t>> readers_;  // by storage
};

}  // namespace

void fuse_products(Graph& graph, Target& target) { Sweep(graph, target).store_operands(); }

}  // namespace runtime::graph
