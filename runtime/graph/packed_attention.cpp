// Finds the nodes that have a packed form and writes it in their place.
#include "runtime/graph/packed_attention.h"

#include <cmath>
#include <map>
#include <utility>

#include "runtime/graph/build.h"

namespace runtime::graph {

namespace {

bool is_forward(const Node& node) { return node.op == RT_OP_DOT_PRODUCT_ATTENTION; }
bool is_general(const Node& node) {
  return is_forward(node) || node.op == RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD;
}
// The place of q among the inputs; k and v follow it.
size_t first_of(const Node& node) { return is_forward(node) ? 0 : 1; }

class Packing {
 public:
  Packing(Graph& graph, Target& target) : graph_(graph), target_(target), build_(graph) {}

  std::vector<std::string> run() {
    for (const Node& node : graph_.nodes) {
      if (!is_general(node) || !has_packed_form(node)) continue;
      const Support support = target_.support(graph_, node);
      if (!support.supported) reasons_.emplace(key_of(node), support.reason);
    }
    if (reasons_.empty()) return {};
    std::vector<Node> nodes = std::exchange(graph_.nodes, {});
    std::string line;
    for (Node& node : nodes) {
      const auto reason = is_general(node) ? reasons_.find(key_of(node)) : reasons_.end();
      if (reason == reasons_.end() || !replace(node)) {
        graph_.nodes.push_back(std::move(node));
      } else if (line.empty()) {
        line = std::string(RT_OP_DOT_PRODUCT_ATTENTION) + " runs as " + RT_OP_ATTENTION + ": " +
               target_.name() + " refuses it (" + reason->second + ")";
      }
    }
    return line.empty() ? std::vector<std::string>{} : std::vector<std::string>{line};
  }

 private:
  // A node and its gradient have one key: the saved data, or without a gradient the result.
  static ValueId key_of(const Node& node) {
    return node.saved != kNone ? node.saved : node.outputs.at(0);
  }

  const Dims& dims(ValueId v) const { return graph_.value(v).dims; }

  bool has_packed_form(const Node& node) const {
    const size_t first = first_of(node);
    const Dims& q = dims(node.inputs[first]);
    const int64_t heads = integer_attribute(node, RT_ATTR_HEADS, 1),
                  shared = integer_attribute(node, RT_ATTR_KEY_HEADS, 0);
    const double scale = number_attribute(node, RT_ATTR_SCALE, 0);
    return q == dims(node.inputs[first + 1]) && q == dims(node.inputs[first + 2]) &&
           (shared == 0 || shared == heads) && integer_attribute(node, RT_ATTR_WINDOW, 0) == 0 &&
           (scale == 0 || scale == 1 / std::sqrt(static_cast<double>(q[2] / heads))) &&
           number_attribute(node, RT_ATTR_PROBABILITY, 0) == 0 &&
           node.inputs.size() <= first + (is_forward(node) ? 5 : 6);  // there are no documents
  }

  // Appends the packed form of the node; false, and nothing, if the target refuses it as well.
  bool replace(const Node& node) {
    build_.layer = node.layer;
    build_.phase = node.phase;
    const size_t first = graph_.nodes.size();
    if (!(is_forward(node) ? replace_forward(node) : replace_backward(node))) return false;
    for (size_t i = first; i < graph_.nodes.size(); ++i) graph_.nodes[i].origin = node.origin;
    return true;
  }

  Node packed(const Node& node, const char* op, std::vector<ValueId> inputs) const {
    Node result = node;
    result.op = op;
    result.inputs = std::move(inputs);
    result.attributes = {{RT_ATTR_HEADS, integer_attribute(node, RT_ATTR_HEADS, 1)},
                         {RT_ATTR_CAUSAL, integer_attribute(node, RT_ATTR_CAUSAL, 0)}};
    return result;
  }

  bool replace_forward(const Node& node) {
    Dims all = dims(node.inputs[0]);
    all[2] *= 3;
    const ValueId qkv = build_.node1(RT_OP_CONCAT, {node.inputs[0], node.inputs[1], node.inputs[2]},
                                     all, {{RT_ATTR_AXIS, int64_t{2}}});
    Node whole = packed(node, RT_OP_ATTENTION, {qkv});
    if (!target_.support(graph_, whole).supported) {
      graph_.nodes.pop_back();
      return false;
    }
    graph_.nodes.push_back(std::move(whole));
    qkv_[key_of(node)] = qkv;
    return true;
  }

  bool replace_backward(const Node& node) {
    const auto qkv = qkv_.find(key_of(node));
    if (qkv == qkv_.end()) return false;
    const Dims& q = dims(node.inputs[1]);
    const ValueId dqkv = graph_.add_value("", ValueKind::kTemporary, Dims(dims(qkv->second)),
                                          graph_.value(qkv->second).dtype);
    Node whole =
        packed(node, RT_OP_ATTENTION_BACKWARD, {node.inputs[0], qkv->second, node.inputs[4]});
    whole.outputs = {dqkv};
    graph_.nodes.push_back(std::move(whole));
    for (int64_t i = 0; i < 3; ++i) {
      build_.node_into(RT_OP_SLICE, {dqkv}, {node.outputs[static_cast<size_t>(i)]},
                       {{RT_ATTR_AXIS, int64_t{2}}, {RT_ATTR_START, i * q[2]}});
    }
    return true;
  }

  Graph& graph_;
  Target& target_;
  Build build_;
  std::map<ValueId, std::string> reasons_;  // of refusals, by key
  std::map<ValueId, ValueId> qkv_;          // by key
};

}  // namespace

std::vector<std::string> pack_attention(Graph& graph, Target& target) {
  return Packing(graph, target).run();
}

}  // namespace runtime::graph
