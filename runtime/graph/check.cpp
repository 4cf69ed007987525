// Checks order, types, dims, views and collectives of all nodes, and names the first fault.
#include "runtime/graph/check.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/graph/operation_set.h"
#include "runtime/graph/print.h"

namespace runtime::graph {

namespace {

bool is_persistent(ValueKind kind) {
  return kind != ValueKind::kTemporary && kind != ValueKind::kOutput;
}

class Check {
 public:
  explicit Check(const Graph& graph) : graph_(graph) {}

  std::string run() {
    for (const Node& node : graph_.nodes) {
      const std::string fault = fault_of(node);
      if (fault.empty()) continue;
      return "node " + std::to_string(&node - graph_.nodes.data()) + " (" + node.op +
             " of layer '" + node.layer + "') " + fault;
    }
    if (started_.empty()) return "";
    return "collective " + std::to_string(started_.begin()->first) + " (" +
           started_.begin()->second->op + " of layer '" + started_.begin()->second->layer +
           "') is started and never waited for";
  }

 private:
  // Returns what is wrong with a node behind those that were checked before; "" if nothing is.
  std::string fault_of(const Node& node) {
    for (const auto* operands : {&node.inputs, &node.outputs}) {
      for (ValueId v : *operands) {
        if (std::string fault = fault_of_operand(v); !fault.empty()) return fault;
      }
    }
    const bool waits = node.collective && node.collective->wait;
    if (node.collective) {
      if (std::string fault = fault_of_collective(node); !fault.empty()) return fault;
    }
    // All ranks list what a broadcast sends as its input; only the root must have it.
    const bool receives = node.collective && node.collective->kind == RT_BROADCAST;
    for (ValueId v : node.inputs) {
      if (v == kNone) continue;
      const ValueId storage = graph_.storage(v);
      if (!receives && !is_persistent(graph_.value(storage).kind) && !written_.contains(storage))
        return "reads " + name(v) + " before any node writes it";
    }
    if (node.saved != kNone && node.is_backward() && !saved_.contains(node.saved))
      return "reads saved data " + name(node.saved) + " that no forward node writes";
    if (node.saved != kNone && !node.is_backward()) saved_.insert(node.saved);
    for (ValueId v : node.outputs) {
      if (v == kNone || waits) continue;
      const ValueId storage = graph_.storage(v);
      written_.insert(storage);
      const bool in_place =
          std::find(node.inputs.begin(), node.inputs.end(), v) != node.inputs.end();
      if (!is_persistent(graph_.value(storage).kind) && !writers_.insert(v).second && !in_place)
        return "writes " + name(v) + ", which an earlier node has written";
    }
    return fits(node) ? "" : shapes_differ(node);
  }

  std::string name(ValueId v) const {
    return "value " + std::to_string(v) +
           (graph_.value(v).name.empty() ? "" : " '" + graph_.value(v).name + "'");
  }

  std::string fault_of_operand(ValueId v) const {
    if (v == kNone) return "";
    const auto count = static_cast<ValueId>(graph_.values.size());
    if (v < 0 || v >= count)
      return "has value " + std::to_string(v) + " of " + std::to_string(count);
    const Value& value = graph_.value(v);
    if (value.base == kNone) return "";
    if (value.base < 0 || value.base >= count || value.base == v)
      return "has " + name(v) + ", a view of value " + std::to_string(value.base);
    const Value& base = graph_.value(value.base);
    if (value.offset + canonical_bytes(value) > std::max(base.bytes, canonical_bytes(base))) {
      return "has " + name(v) + ", bytes " + std::to_string(value.offset) + " to " +
             std::to_string(value.offset + canonical_bytes(value)) + " of " + name(value.base) +
             ", which has " + std::to_string(base.bytes);
    }
    return fault_of_operand(value.base);
  }

  std::string fault_of_collective(const Node& node) {
    const Collective& c = *node.collective;
    if (!c.wait) {
      return started_.emplace(c.token, &node).second ? ""
                                                     : "starts a collective whose token is in use";
    }
    const auto start = started_.find(c.token);
    if (start == started_.end()) return "waits for a collective that is not started";
    const bool same = start->second->outputs == node.outputs;
    started_.erase(start);
    return same ? "" : "waits for a collective that was started with other operands";
  }

  int64_t elements(ValueId v) const { return element_count(graph_.value(v).dims); }
  rt_dtype type(ValueId v) const { return graph_.value(v).dtype; }

  std::string shapes_differ(const Node& node) const {
    std::string text = "does not fit its operands:";
    for (ValueId v : node.inputs) text += " " + described(v);
    text += " to";
    for (ValueId v : node.outputs) text += v == kNone ? " none" : " " + described(v);
    return text;
  }
  std::string described(ValueId v) const {
    return to_string(graph_.value(v).dims) + " " + name_of(type(v));
  }

  bool fits(const Node& node) const {
    if (node.collective) return collective_fits(node);
    const Operation& operation = operation_of(graph_, node);
    const bool binary = operation.forward.split == SplitRule::kBroadcast || has_matrices(operation);
    if (binary && node.inputs.size() < 2) return false;
    if (node.inputs.empty() || node.outputs.empty() || node.outputs[0] == kNone) return true;
    const ValueId in = node.inputs[0], out = node.outputs[0];
    if (binary) return has_matrices(operation) ? matmul_fits(node) : elementwise_fits(node);
    if (operation.kind == Kind::kConverts) return elements(in) == elements(out);
    if (operation.kind == Kind::kCopies)
      return elements(in) == elements(out) && type(in) == type(out);
    return !joins(operation) || concat_fits(node);
  }

  // Whether a definition cannot say the dims, because either matrix may be transposed.
  static bool has_matrices(const Operation& operation) {
    return operation.definition && operation.definition->attributes.find(RT_ATTR_TRANSPOSE_A);
  }

  // Whether the result has the elements of one or more operands.
  static bool joins(const Operation& operation) {
    return operation.definition && !operation.definition->inputs.empty() &&
           operation.definition->inputs[0].is(rt::sdk::OperandDefinition::kRepeated);
  }

  bool collective_fits(const Node& node) const {
    const Collective& c = *node.collective;
    if (node.inputs.empty() || node.outputs.empty() || c.is_transfer()) return true;
    const ValueId sent = node.inputs[0], received = node.outputs[0];
    if (type(sent) != type(received) || elements(sent) == 0 || elements(received) == 0)
      return false;
    if (c.kind == RT_ALL_GATHER) return elements(received) % elements(sent) == 0;
    if (c.kind == RT_REDUCE_SCATTER) return elements(sent) % elements(received) == 0;
    return elements(sent) == elements(received);
  }

  // Broadcasting may repeat either operand.
  bool elementwise_fits(const Node& node) const {
    const ValueId out = node.outputs[0];
    for (size_t i = 0; i < 2; ++i) {
      const ValueId v = node.inputs.at(i);
      if (type(v) != type(out) || elements(v) == 0 || elements(out) % elements(v) != 0)
        return false;
    }
    return true;
  }

  bool matmul_fits(const Node& node) const {
    const auto rows_and_columns = [&](ValueId v, bool transposed) {
      const Dims& d = graph_.value(v).dims;
      const std::pair<int64_t, int64_t> as_stored{d[d.size() - 2], d.back()};
      return transposed ? std::pair(as_stored.second, as_stored.first) : as_stored;
    };
    for (ValueId v : {node.inputs.at(0), node.inputs.at(1), node.outputs[0]}) {
      if (graph_.value(v).dims.size() < 2) return false;
    }
    const auto a =
        rows_and_columns(node.inputs[0], integer_attribute(node, RT_ATTR_TRANSPOSE_A, 0) != 0);
    const auto b =
        rows_and_columns(node.inputs[1], integer_attribute(node, RT_ATTR_TRANSPOSE_B, 0) != 0);
    const auto c = rows_and_columns(node.outputs[0], false);
    return a.second == b.first && c.first == a.first && c.second == b.second;
  }

  bool concat_fits(const Node& node) const {
    int64_t sum = 0;
    for (ValueId v : node.inputs) sum += elements(v);
    return sum == elements(node.outputs[0]);
  }

  const Graph& graph_;
  std::set<ValueId> written_, writers_, saved_;
  std::map<int32_t, const Node*> started_;  // by token
};

}  // namespace

std::string fault_of(const Graph& graph) { return Check(graph).run(); }

}  // namespace runtime::graph
