// Retypes activations to 16 bits and inserts the casts, by lists of what stays float32.
#include "runtime/graph/mixed_precision.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/graph/build.h"
#include "runtime/graph/operation_set.h"

namespace runtime::graph {

namespace {

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
    switch (operation_of(graph_, node).forward.precision) {
      case Precision::kNarrow:
        return narrow(node);
      case Precision::kAsGiven:
        return;
      case Precision::kFloat32:
        for (ValueId& v : node.inputs) v = cast(v, dtype_, RT_FLOAT32);
    }
  }

  // Collectives have no definition; all of their operands can become narrow.
  static bool stays_wide(const rt::sdk::OperandDefinition* operand) {
    return operand != nullptr && operand->is(rt::sdk::OperandDefinition::kWide);
  }

  // Narrows the operands that do not stay wide, if one of them is an activation already or can
  // become one.
  void narrow(Node& node) {
    const Operation& operation = operation_of(graph_, node);
    if (operation.kind == Kind::kConverts && !is_wide(node.outputs[0])) return;  // to integers
    const rt::sdk::Definition* const definition = operation.definition;
    std::vector<ValueId*> operands;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (definition == nullptr || !stays_wide(definition->input(i)))
        operands.push_back(&node.inputs[i]);
    }
    const auto is_narrowed = [&](const ValueId* v) { return is_source(*v); };
    if (std::none_of(operands.begin(), operands.end(), is_narrowed)) return;
    for (ValueId* v : operands) *v = cast(*v, RT_FLOAT32, dtype_);
    if (definition == nullptr || !stays_wide(definition->output(0, node.inputs.size())))
      make_narrow(node.outputs[0]);
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
