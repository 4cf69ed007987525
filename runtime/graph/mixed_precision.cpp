// Retypes activations to 16 bits and inserts the casts, by lists of what stays float32.
#include "runtime/graph/mixed_precision.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/graph/build.h"
#include "runtime/graph/loss_operations.h"

namespace runtime::graph {

namespace {

bool is_one_of(const std::string& op, std::initializer_list<const char*> list) {
  return std::any_of(list.begin(), list.end(), [&](const char* o) { return op == o; });
}

// Whether the node is a loss that reads float32 predictions.
bool is_wide_loss(const Node& node) {
  return node.op == RT_OP_MEAN_SQUARED_ERROR || is_composed_loss(node.op);
}

// How many of the inputs, counted from the first, are activations by plugins/operations.md. Targets
// of a regression are not (they keep the data set's type), and its predictions are cast separately.
// A reduction in a forward graph is over the weights of predictions, which stay float32.
size_t activations_of(const Node& node) {
  if (is_wide_loss(node) || is_open(node.op) ||
      is_one_of(node.op, {RT_OP_SQUARE_SUM, RT_OP_REDUCE, RT_OP_BATCH_NORM_MERGE,
                          RT_OP_CROSS_ENTROPY_MERGE})) {
    return 0;
  }
  const bool one =
      is_one_of(node.op, {RT_OP_BATCH_NORM, RT_OP_BATCH_NORM_INFERENCE, RT_OP_BATCH_NORM_STATISTICS,
                          RT_OP_BATCH_NORM_APPLY, RT_OP_LAYER_NORM, RT_OP_CROSS_ENTROPY,
                          RT_OP_CROSS_ENTROPY_STATISTICS, RT_OP_CORRECT_COUNT});
  return one ? 1 : node.inputs.size();
}

bool makes_activation(const Node& node) {
  return !is_one_of(node.op, {RT_OP_BATCH_NORM_STATISTICS, RT_OP_CROSS_ENTROPY,
                              RT_OP_CROSS_ENTROPY_STATISTICS, RT_OP_CORRECT_COUNT});
}

class Narrowing {
 public:
  Narrowing(Graph& graph, rt_dtype dtype) : graph_(graph), build_(graph), dtype_(dtype) {}

  void run() {
    for (Node& node : std::exchange(graph_.nodes, {})) {
      build_.layer = node.layer;
      build_.phase = node.phase;
      for (ValueId v : node.inputs) settle(v);
      convert(node);
      graph_.nodes.push_back(std::move(node));
    }
    for (size_t v = 0; v < graph_.values.size(); ++v) settle(static_cast<ValueId>(v));
  }

 private:
  const Value& root(ValueId v) const { return graph_.value(graph_.storage(v)); }
  bool is_wide(ValueId v) const { return root(v).dtype == RT_FLOAT32; }

  // A view has the type of its base.
  void settle(ValueId v) {
    if (graph_.value(v).dtype != root(v).dtype) graph_.retype(v, root(v).dtype);
  }

  // Whether `v` is narrow, or a float32 parameter or input that can be cast.
  bool is_source(ValueId v) const {
    const ValueKind kind = root(v).kind;
    return root(v).dtype == dtype_ ||
           (is_wide(v) && (kind == ValueKind::kParameter || kind == ValueKind::kInput));
  }

  void convert(Node& node) {
    const bool to_integers = node.op == RT_OP_CAST && !is_wide(node.outputs[0]);
    const auto end = node.inputs.begin() + static_cast<std::ptrdiff_t>(activations_of(node));
    const bool narrow = !to_integers && std::any_of(node.inputs.begin(), end,
                                                    [&](ValueId v) { return is_source(v); });
    if (narrow) {
      for (auto v = node.inputs.begin(); v != end; ++v) *v = cast(*v, RT_FLOAT32, dtype_);
      if (makes_activation(node)) make_narrow(node.outputs[0]);
    } else if (is_open(node.op)) {
      for (ValueId& v : node.inputs) v = cast(v, dtype_, RT_FLOAT32);
    } else if (is_wide_loss(node)) {
      node.inputs[0] = cast(node.inputs[0], dtype_, RT_FLOAT32);
    }
  }

  void make_narrow(ValueId v) {
    graph_.retype(graph_.storage(v), dtype_);
    settle(v);
  }

  // One cast for each value and layer, so that each pipeline stage casts where it reads.
  ValueId cast(ValueId v, rt_dtype from, rt_dtype to) {
    if (root(v).dtype != from) return v;
    const auto [known, is_new] = casts_.try_emplace({v, build_.layer}, kNone);
    if (is_new) known->second = build_.cast(v, to);
    return known->second;
  }

  Graph& graph_;
  Build build_;
  const rt_dtype dtype_;
  std::map<std::pair<ValueId, std::string>, ValueId> casts_;
};

}  // namespace

void narrow_activations(Graph& graph, rt_dtype dtype) { Narrowing(graph, dtype).run(); }

}  // namespace runtime::graph
