// Fuses post-operations one consumer at a time, and pairs of losses and their gradients.
#include "runtime/graph/fuse.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "runtime/graph/activations.h"
#include "runtime/graph/operation_set.h"
#include "runtime/graph/rewriter.h"

namespace runtime::graph {

namespace {

// Fuses post-operations one consumer at a time; the fused node moves to the consumer's position.
class Fusion {
 public:
  Fusion(Graph& graph, Target& target) : graph_(graph), target_(target), dead_(graph.nodes.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (ValueId v : graph.nodes[i].inputs) readers_[graph.storage(v)].push_back(i);
    }
  }

  void run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      size_t at = i;
      while (!dead_[at] &&
             operation_of(graph_, graph_.nodes[at]).post_operations == PostOperations::kFuses) {
        const std::optional<size_t> next = try_fuse(at);
        if (!next) break;
        at = *next;
      }
    }
    fuse_bias_gradients();
    remove_marked(graph_.nodes, dead_);
  }

 private:
  // The only node that reads the first output of `node`, if that output is a plain temporary.
  std::optional<size_t> only_reader(const Node& node) const {
    const ValueId v = node.outputs[0];
    if (!is_plain_temporary(graph_.value(v))) return std::nullopt;
    const auto it = readers_.find(v);
    if (it == readers_.end() || it->second.size() != 1) return std::nullopt;
    return it->second[0];
  }

  // Whether the node at `at` may move to `to`, as far as the readers of its other outputs go.
  bool others_can_wait(size_t at, size_t to) const {
    const std::vector<ValueId>& outputs = graph_.nodes[at].outputs;
    return std::all_of(outputs.begin() + 1, outputs.end(), [&](ValueId v) {
      const auto it = readers_.find(graph_.storage(v));
      return it == readers_.end() ||
             std::none_of(it->second.begin(), it->second.end(),
                          [&](size_t i) { return !dead_[i] && i > at && i <= to; });
    });
  }

  // `reader` as a post-operation on its operand v, with the post-operation's own operand (or
  // kNone).
  std::optional<std::pair<PostOp, ValueId>> as_post_op(const Node& reader, ValueId v) const {
    if (!reader.post_ops.empty() || !std::count(reader.inputs.begin(), reader.inputs.end(), v))
      return std::nullopt;
    const Dims& dims = graph_.value(v).dims;
    const auto function = static_cast<int32_t>(integer_attribute(reader, RT_ATTR_FUNCTION, 0));
    // Post-operations have the functions that have a gradient; see plugins/operations.md.
    if (reader.op == RT_OP_ACTIVATION && has_backward(function))
      return {{{RT_POST_ACTIVATION, function, -1}, kNone}};
    if (reader.op == RT_OP_ACTIVATION_BACKWARD && reader.inputs[0] == v && reader.inputs[1] != v) {
      return {{{RT_POST_ACTIVATION_BACKWARD, function, 0}, reader.inputs[1]}};
    }
    if (reader.op != RT_OP_ADD || graph_.value(reader.outputs[0]).dims != dims) return std::nullopt;
    const ValueId other = reader.inputs[0] == v ? reader.inputs[1] : reader.inputs[0];
    const Dims& other_dims = graph_.value(other).dims;
    if (other_dims == dims) return {{{RT_POST_RESIDUAL_ADD, 0, 0}, other}};
    if (other_dims.size() == 1 && other_dims[0] == dims.back())
      return {{{RT_POST_BIAS, 0, 0}, other}};
    return std::nullopt;
  }

  std::optional<size_t> try_fuse(size_t at) {
    const Node& node = graph_.nodes[at];
    const std::optional<size_t> reader = only_reader(node);
    if (!reader || dead_[*reader]) return std::nullopt;
    const Node& next = graph_.nodes[*reader];
    auto post_op = as_post_op(next, node.outputs[0]);
    if (!post_op || next.phase != node.phase || !others_can_wait(at, *reader)) return std::nullopt;
    Node fused = node;
    if (post_op->first.operand >= 0) {
      post_op->first.operand = static_cast<int32_t>(fused.inputs.size());
      fused.inputs.push_back(post_op->second);
    }
    if (fused.inputs.size() > RT_MAX_INPUTS) return std::nullopt;
    fused.post_ops.push_back(post_op->first);
    fused.outputs[0] = next.outputs[0];
    fused.origin = next.origin;  // the fused node runs where `next` ran
    const Support support = target_.support(graph_, fused);
    if (!support.supported || support.post_ops_fused < fused.post_ops.size()) return std::nullopt;
    for (ValueId v : node.inputs)
      std::replace(readers_[graph_.storage(v)].begin(), readers_[graph_.storage(v)].end(), at,
                   *reader);
    graph_.nodes[*reader] = std::move(fused);
    dead_[at] = true;
    return reader;
  }

  // Fuses reduce(sum over all but the last axis)(dy) into conv2d_backward_weights(x, dy).
  void fuse_bias_gradients() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (dead_[i] || graph_.nodes[i].op != RT_OP_CONV2D_BACKWARD_WEIGHTS) continue;
      const ValueId dy = graph_.nodes[i].inputs[1];
      const auto all_but_last = static_cast<int64_t>((1 << (graph_.value(dy).dims.size() - 1)) - 1);
      for (size_t j : readers_[graph_.storage(dy)]) {
        const Node& reduce = graph_.nodes[j];
        if (dead_[j] || reduce.op != RT_OP_REDUCE || reduce.inputs[0] != dy ||
            integer_attribute(reduce, RT_ATTR_FUNCTION, 0) != RT_REDUCE_SUM ||
            integer_attribute(reduce, RT_ATTR_AXES, 0) != all_but_last) {
          continue;
        }
        Node fused = graph_.nodes[i];
        fused.outputs.push_back(reduce.outputs[0]);
        if (!target_.support(graph_, fused).supported) continue;
        // The fused node takes the earlier position, because all readers of either result come
        // later.
        dead_[std::max(i, j)] = true;
        graph_.nodes[std::min(i, j)] = std::move(fused);
        break;
      }
    }
  }

  Graph& graph_;
  Target& target_;
  std::vector<char> dead_;
  std::unordered_map<ValueId, std::vector<size_t>> readers_;
};

// The first node behind node `loss` that is an operation `op` on the same logits, labels and
// weight.
std::optional<size_t> with_operands_of(const Graph& graph, size_t loss, const char* op) {
  const std::vector<ValueId>& rows = graph.nodes[loss].inputs;
  for (size_t i = loss + 1; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    if (n.op == op && n.inputs.size() >= rows.size() &&
        std::equal(rows.begin(), rows.end(), n.inputs.begin()))
      return i;
  }
  return std::nullopt;
}

// Whether a node from number `first` to number `last` writes `v` or a part of its memory.
bool is_written(const Graph& graph, size_t first, size_t last, ValueId v) {
  for (size_t i = first; i <= last; ++i) {
    for (ValueId output : graph.nodes[i].outputs) {
      if (output != kNone && graph.storage(output) == graph.storage(v)) return true;
    }
  }
  return false;
}

// Computes the loss, its gradient and, if there is one, the number of correct predictions in one
// node where the target can, so that the logits are read once. The node runs where the loss was
// computed, in the forward phase, so the gradient of the loss must be known there.
void fuse_losses(Graph& graph, Target& target) {
  std::vector<char> dead(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != RT_OP_CROSS_ENTROPY) continue;
    const auto backward = with_operands_of(graph, i, RT_OP_CROSS_ENTROPY_BACKWARD);
    if (!backward) continue;
    const ValueId dloss = graph.nodes[*backward].inputs[3];
    if (is_written(graph, i, *backward, dloss)) continue;
    Node fused = graph.nodes[i];
    fused.op = RT_OP_CROSS_ENTROPY_WITH_GRADIENT;
    fused.inputs.push_back(dloss);
    fused.outputs.push_back(graph.nodes[*backward].outputs[0]);
    Node counting = fused;
    const auto count = with_operands_of(graph, i, RT_OP_CORRECT_COUNT);
    if (count) counting.outputs.push_back(graph.nodes[*count].outputs[0]);
    const bool counts = count && target.support(graph, counting).supported;
    if (!counts && !target.support(graph, fused).supported) continue;
    graph.nodes[i] = counts ? std::move(counting) : std::move(fused);
    dead[*backward] = true;
    if (counts) dead[*count] = true;
  }
  remove_marked(graph.nodes, dead);
}

}  // namespace

void fuse(Graph& graph, Target& target) {
  Fusion(graph, target).run();
  fuse_pooling(graph, target);
  fuse_products(graph, target);
  fuse_losses(graph, target);
}

void remove_dead_nodes(Graph& graph) {
  std::set<ValueId> needed;
  std::vector<char> dead(graph.nodes.size());
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    const bool used = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
      const ValueId s = graph.storage(v);
      return graph.value(s).kind != ValueKind::kTemporary ||
             graph.value(v).kind != ValueKind::kTemporary || needed.contains(s);
    });
    dead[i] = !used && (node.saved == kNone || !needed.contains(node.saved)) &&
              !(node.collective && node.collective->is_transfer());  // the peer rank expects it
    if (dead[i]) continue;
    for (ValueId v : node.inputs) needed.insert(graph.storage(v));
    if (node.is_backward() && node.saved != kNone) needed.insert(node.saved);
  }
  remove_marked(graph.nodes, dead);
}

}  // namespace runtime::graph
