// A convolution with the pooling behind it, as one node, and the gradient of its weights through
// that pooling. fuse() comes before, so the convolution has its bias and activation, and the
// gradient of the bias is an output of the weights' gradient.
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <set>
#include <unordered_map>

#include "runtime/graph/fuse.h"
#include "runtime/graph/rewriter.h"

namespace runtime::graph {

namespace {

int32_t function_of(const Node& activation) {
  return static_cast<int32_t>(integer_attribute(activation, RT_ATTR_FUNCTION, 0));
}

// Whether both nodes have the same attributes, in the same order.
bool have_equal_attributes(const Node& a, const Node& b) {
  return std::equal(a.attributes.begin(), a.attributes.end(), b.attributes.begin(),
                    b.attributes.end(), [](const Attribute& x, const Attribute& y) {
                      return x.name == y.name && x.value == y.value;
                    });
}

// Whether the node adds a bias, its third input, and then does nothing or an activation.
bool has_bias_and_activation(const Node& n) {
  const auto& post = n.post_ops;
  return n.inputs.size() == 3 && n.outputs.size() == 1 && (post.size() == 1 || post.size() == 2) &&
         post[0].kind == RT_POST_BIAS && post[0].operand == 2 &&
         (post.size() == 1 || post[1].kind == RT_POST_ACTIVATION);
}

int32_t activation_of(const Node& convolution) {
  return convolution.post_ops.size() == 2 ? convolution.post_ops[1].function : 0;
}

// Whether the windows of a pooling neither overlap, nor leave gaps, nor contain padding.
bool has_adjacent_windows(const Node& pool) {
  const auto value = [&](const char* name, int64_t fallback) {
    return integer_attribute(pool, name, fallback);
  };
  return value(RT_ATTR_KERNEL_H, 0) == value(RT_ATTR_STRIDE_H, 1) &&
         value(RT_ATTR_KERNEL_W, 0) == value(RT_ATTR_STRIDE_W, 1) &&
         value(RT_ATTR_PAD_TOP, 0) == 0 && value(RT_ATTR_PAD_BOTTOM, 0) == 0 &&
         value(RT_ATTR_PAD_LEFT, 0) == 0 && value(RT_ATTR_PAD_RIGHT, 0) == 0;
}

bool is_average(const Node& pool) { return pool.op == RT_OP_AVG_POOL2D; }

bool is_pooling(const Node& node) {
  return (node.op == RT_OP_MAX_POOL2D || is_average(node)) && node.post_ops.empty() &&
         has_adjacent_windows(node);
}

// One sweep over the graph. Nodes that it merges with others are marked, and removed at its end.
class PoolingSweep {
 public:
  PoolingSweep(Graph& graph, Target& target)
      : graph_(graph), target_(target), dead_(graph.nodes.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (ValueId v : graph.nodes[i].inputs) readers_[graph.storage(v)].insert(i);
    }
  }
  void run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (dead_[i] || !is_candidate(i)) continue;
      const std::optional<size_t> pool = pooling_behind(i);
      if (pool && !fuse_with_gradient(i, *pool)) fuse_alone(i, *pool);
    }
    remove_marked(graph_.nodes, dead_);
  }

 private:
  // The nodes through which the gradient of the pooling's result reaches the convolution's weights.
  struct Gradient {
    size_t pooling, weights;
    std::optional<size_t> activation;  // unless it is a post-operation of the pooling's gradient
  };

  bool is_candidate(size_t i) const {
    const Node& n = graph_.nodes[i];
    return n.op == RT_OP_CONV2D && has_bias_and_activation(n) &&
           is_plain_temporary(graph_.value(n.outputs[0]));
  }

  const std::set<size_t>& readers(ValueId v) const {
    static const std::set<size_t>& kNobody = *new std::set<size_t>;
    const auto it = readers_.find(graph_.storage(v));
    return it == readers_.end() ? kNobody : it->second;
  }

  // The only node that reads the first output of node i, which is a plain temporary.
  std::optional<size_t> only_reader(size_t i) const {
    const ValueId v = graph_.nodes[i].outputs[0];
    if (!is_plain_temporary(graph_.value(v)) || readers(v).size() != 1) return std::nullopt;
    return *readers(v).begin();
  }

  std::optional<size_t> pooling_behind(size_t convolution) const {
    const Node& n = graph_.nodes[convolution];
    for (size_t i : readers(n.outputs[0])) {
      const Node& reader = graph_.nodes[i];
      if (is_pooling(reader) && reader.inputs[0] == n.outputs[0] && reader.phase == n.phase &&
          reader.on_fallback == n.on_fallback && i > convolution)
        return i;
    }
    return std::nullopt;
  }

  // Whether post-operation 0 of the node, the only one, is the gradient of f, of which v is the
  // result.
  static bool has_activation_backward(const Node& n, int32_t f, ValueId v) {
    return n.post_ops.size() == 1 && n.post_ops[0].kind == RT_POST_ACTIVATION_BACKWARD &&
           n.post_ops[0].function == f && n.inputs[n.post_ops[0].operand] == v;
  }

  // The gradient of the pooling. That of a maximum reads what it has saved. That of a mean
  // differentiates the same node, or the activation whose gradient it has as post-operation.
  std::optional<size_t> gradient_of_pooling(size_t convolution, size_t pool) const {
    const Node &n = graph_.nodes[pool], &c = graph_.nodes[convolution];
    const auto belongs = [&](const Node& g) {
      if (!is_average(n)) return n.saved != kNone && g.saved == n.saved;
      return (n.origin != kNone && g.origin == n.origin) ||
             has_activation_backward(g, activation_of(c), c.outputs[0]);
    };
    for (size_t i = pool + 1; i < graph_.nodes.size(); ++i) {
      const Node& g = graph_.nodes[i];
      if (g.op == n.op + "_backward" && belongs(g) && have_equal_attributes(n, g)) return i;
    }
    return std::nullopt;
  }

  // Finds the nodes from the gradient of the pooling to that of the weights. The answer is nullopt
  // if anything else reads what lies between, or if they are others than the forward nodes have.
  std::optional<Gradient> gradient(size_t convolution, size_t pool) const {
    const auto first = gradient_of_pooling(convolution, pool);
    if (!first) return std::nullopt;
    Gradient g{*first, 0, std::nullopt};
    const ValueId v = graph_.nodes[convolution].outputs[0];
    const int32_t f = activation_of(graph_.nodes[convolution]);
    std::optional<size_t> next = only_reader(*first);
    if (!next) return std::nullopt;
    if (f == 0 ? !graph_.nodes[*first].post_ops.empty()
               : !has_activation_backward(graph_.nodes[*first], f, v)) {
      const Node& n = graph_.nodes[*next];
      if (f == 0 || !graph_.nodes[*first].post_ops.empty() || n.op != RT_OP_ACTIVATION_BACKWARD ||
          function_of(n) != f || n.inputs[0] != graph_.nodes[*first].outputs[0] || n.inputs[1] != v)
        return std::nullopt;
      g.activation = next;
      next = only_reader(*next);
    }
    if (!next || !is_gradient_of_weights(*next, convolution, g.activation.value_or(*first)))
      return std::nullopt;
    g.weights = *next;
    return g;
  }

  // Whether node i computes the gradients of the weights and of the bias of `convolution` from the
  // first output of node `from`.
  bool is_gradient_of_weights(size_t i, size_t convolution, size_t from) const {
    const Node &n = graph_.nodes[i], &forward = graph_.nodes[convolution];
    return n.op == RT_OP_CONV2D_BACKWARD_WEIGHTS && n.outputs.size() == 2 &&
           n.inputs[0] == forward.inputs[0] && n.inputs[1] == graph_.nodes[from].outputs[0] &&
           graph_.value(n.outputs[0]).dims == graph_.value(forward.inputs[1]).dims &&
           have_equal_attributes(n, forward);
  }

  // Whether all of these nodes run in one phase on one device.
  bool are_together(std::initializer_list<size_t> nodes) const {
    const Node& first = graph_.nodes[*nodes.begin()];
    return std::all_of(nodes.begin(), nodes.end(), [&](size_t i) {
      return graph_.nodes[i].phase == first.phase &&
             graph_.nodes[i].on_fallback == first.on_fallback;
    });
  }

  // The convolution and the pooling as one node, which saves nothing yet.
  Node forward_node(const Node& convolution, const Node& pool) const {
    Node fused = convolution;
    fused.op = RT_OP_CONV2D_POOL2D;
    fused.outputs = pool.outputs;
    fused.post_ops.clear();
    fused.origin = pool.origin;  // the fused node runs where the pooling ran
    const auto add = [&](const char* name, int64_t value) {
      fused.attributes.push_back({name, value});
    };
    for (const char* name : {RT_ATTR_KERNEL_H, RT_ATTR_KERNEL_W})
      add(name, integer_attribute(pool, name, 0));
    add(RT_ATTR_AVERAGE, is_average(pool) ? 1 : 0);
    add(RT_ATTR_FUNCTION, activation_of(convolution));
    return fused;
  }

  bool is_native(const Node& node) const {
    const Support support = target_.support(graph_, node);
    return support.supported && !support.emulated;
  }

  // Makes one node of each direction. The forward node saves what the other one needs, as the
  // pooling did if it was a maximum. No node moves in front of another one.
  bool fuse_with_gradient(size_t convolution, size_t pool) {
    const std::optional<Gradient> g = gradient(convolution, pool);
    if (!g || !are_together({g->pooling, g->activation.value_or(g->weights), g->weights}) ||
        graph_.nodes[g->weights].on_fallback != graph_.nodes[convolution].on_fallback)
      return false;
    std::set<size_t> known = {pool, g->pooling};
    if (g->activation) known.insert(*g->activation);
    const std::set<size_t>& all = readers(graph_.nodes[convolution].outputs[0]);
    if (!std::includes(known.begin(), known.end(), all.begin(), all.end())) return false;
    Node forward = forward_node(graph_.nodes[convolution], graph_.nodes[pool]);
    Node backward = graph_.nodes[g->weights];
    backward.op = RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS;
    backward.inputs[1] = graph_.nodes[g->pooling].inputs[0];
    backward.attributes = forward.attributes;
    if (!is_native(forward) || !is_native(backward)) return false;
    forward.saved = backward.saved = saved_by(pool);
    dead_[convolution] = dead_[g->pooling] = true;
    if (g->activation) dead_[*g->activation] = true;
    graph_.nodes[pool] = std::move(forward);
    graph_.nodes[g->weights] = std::move(backward);
    return true;
  }

  ValueId saved_by(size_t pool) {
    const Node& node = graph_.nodes[pool];
    if (node.saved != kNone) return node.saved;
    return graph_.add_value(node.layer + ".saved", ValueKind::kTemporary, {0}, RT_UINT8);
  }

  // The forward direction alone, if nothing else reads what lies between, nor what the pooling
  // saves.
  void fuse_alone(size_t convolution, size_t pool) {
    const Node& n = graph_.nodes[pool];
    if (readers(n.inputs[0]).size() != 1) return;
    const bool is_saved = n.saved != kNone &&
                          std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const Node& g) {
                            return g.is_backward() && g.saved == n.saved;
                          });
    Node forward = forward_node(graph_.nodes[convolution], n);
    if (is_saved || !is_native(forward)) return;
    dead_[convolution] = true;
    graph_.nodes[pool] = std::move(forward);
  }

  Graph& graph_;
  Target& target_;
  std::vector<char> dead_;
  std::unordered_map<ValueId, std::set<size_t>> readers_;  // of a value or of a view of it
};

}  // namespace

void fuse_pooling(Graph& graph, Target& target) { PoolingSweep(graph, target).run(); }

}  // namespace runtime::graph
