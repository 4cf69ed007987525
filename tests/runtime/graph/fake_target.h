// A device defined by tables, so that a test decides what the device can do and how long it takes.
#ifndef TESTS_RUNTIME_GRAPH_FAKE_TARGET_H_
#define TESTS_RUNTIME_GRAPH_FAKE_TARGET_H_

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/graph/target.h"

namespace runtime::graph {

class FakeTarget : public Target {
 public:
  // ---- abilities and costs

  std::map<std::string, uint32_t> fuses;  // post-operations that an operation fuses; 0 if missing
  // The number of post-operations that candidates fuse, where it is less than the number that the
  // operation reported first.
  std::map<std::string, uint32_t> offers;
  std::set<int32_t> post_kinds = {RT_POST_BIAS, RT_POST_ACTIVATION, RT_POST_RESIDUAL_ADD,
                                  RT_POST_ACTIVATION_BACKWARD};
  std::set<std::string> refuses, emulates;
  std::map<std::string, size_t> most_outputs;  // refuses an operation with more outputs
  bool bias_gradients = true;  // whether conv2d_backward_weights may have a second output
  bool pools = false;          // whether a convolution may have a pooling behind it
  bool product_forms = false;  // whether matmul has a second output or a result in another type
  // Implementations of an operation in foreign layouts. There is also a canonical one, which takes
  // `plain_ns`.
  struct Way {
    double ns = 0;
    std::vector<uint64_t> inputs, outputs;
    uint64_t algorithm = 2;
  };
  std::map<std::string, std::vector<Way>> ways;
  std::map<std::string, double> plain_ns;
  std::set<std::string> only_foreign;   // operations without a canonical implementation
  std::map<std::string, bool> follows;  // accepts any layout that all operands have
  double reorder = 10;
  bool foreign_copies = true;       // whether foreign layouts can be copied to each other directly
  bool measuring = false;           // whether candidates are measured
  int measured = 0;                 // how often
  std::set<std::string> asked_any;  // operations that it was asked to choose a layout for

  // ---- Target

  std::string name() const override { return "fake:0"; }

  Support support(const Graph& graph, const Node& node) override {
    if (refuses.contains(node.op)) return {.reason = "it is refused here"};
    if (const auto it = most_outputs.find(node.op);
        it != most_outputs.end() && node.outputs.size() > it->second)
      return {.reason = "too many outputs"};
    if (emulates.contains(node.op))
      return {.supported = true, .emulated = true, .reason = "without the library"};
    if (node.op == RT_OP_CONV2D_BACKWARD_WEIGHTS && node.outputs.size() == 2 && !bias_gradients)
      return {.reason = "no bias gradient"};
    if (node.op.starts_with(RT_OP_CONV2D_POOL2D) && !pools) return {.reason = "no pooling"};
    if (node.op == RT_OP_MATMUL && !product_forms && is_special_product(graph, node))
      return {.reason = "no such form"};
    const auto it = fuses.find(node.op);
    uint32_t prefix = 0;
    while (it != fuses.end() && prefix < it->second && prefix < node.post_ops.size() &&
           post_kinds.contains(node.post_ops[prefix].kind))
      ++prefix;
    return {.supported = true, .post_ops_fused = prefix};
  }

  std::vector<Candidate> candidates(const Graph& graph, const Node& node,
                                    const std::vector<uint64_t>& inputs,
                                    const std::vector<uint64_t>& outputs) override {
    for (const auto* asked : {&inputs, &outputs}) {
      if (std::count(asked->begin(), asked->end(), RT_LAYOUT_ANY) > 0) asked_any.insert(node.op);
    }
    if (const auto it = offers.find(node.op); it != offers.end()) {
      if (node.post_ops.size() > it->second) return {};
    }
    std::vector<Way> all = ways[node.op];
    if (!only_foreign.contains(node.op))
      all.push_back({plain_ns[node.op], std::vector<uint64_t>(inputs.size(), 0),
                     std::vector<uint64_t>(outputs.size(), 0), 1});
    if (follows[node.op]) {
      for (uint64_t layout : inputs) {
        if (layout != RT_LAYOUT_CANONICAL && layout != RT_LAYOUT_ANY)
          all.push_back({plain_ns[node.op], std::vector<uint64_t>(inputs.size(), layout),
                         std::vector<uint64_t>(outputs.size(), layout), 1});
      }
    }
    std::vector<Candidate> list;
    for (const Way& way : all) {
      if (fits(way.inputs, inputs) && fits(way.outputs, outputs))
        list.push_back(candidate(graph, node, way));
    }
    return list;
  }

  bool measures() const override { return measuring; }
  void measure(const Graph&, const Node&, std::vector<Candidate>& candidates) override {
    ++measured;
    for (Candidate& c : candidates) c.ns = measured_ns ? measured_ns(c) : c.ns;
    if (fails) std::erase_if(candidates, fails);
  }
  std::optional<LayoutDecision> remembered(const Graph&) override { return memory; }
  void remember(const Graph&, const LayoutDecision& decision) override { memory = decision; }
  std::optional<LayoutDecision> memory;
  std::function<bool(const Candidate&)> fails;  // candidates that fail while they are measured
  std::function<double(const Candidate&)> measured_ns;

  double copy_ns(const Value&, uint64_t from, uint64_t to) override {
    const bool foreign = from != RT_LAYOUT_CANONICAL && to != RT_LAYOUT_CANONICAL;
    return foreign && !foreign_copies ? std::numeric_limits<double>::infinity() : reorder;
  }
  uint64_t layout_bytes(const Value& value, uint64_t layout) override {
    return canonical_bytes(value) + (layout == RT_LAYOUT_CANONICAL ? 0 : kPadding);
  }

  static constexpr uint64_t kPadding = 256;

 private:
  static bool is_special_product(const Graph& graph, const Node& node) {
    const bool stores = std::any_of(node.post_ops.begin(), node.post_ops.end(),
                                    [](const PostOp& post) { return post.kind == RT_POST_STORE; });
    return node.outputs.size() > (stores ? 2 : 1) ||
           graph.value(node.outputs[0]).dtype != graph.value(node.inputs[0]).dtype;
  }

  static bool fits(const std::vector<uint64_t>& way, const std::vector<uint64_t>& asked) {
    for (size_t i = 0; i < asked.size(); ++i) {
      if (i >= way.size() || (asked[i] != RT_LAYOUT_ANY && asked[i] != way[i])) return false;
    }
    return true;
  }

  Candidate candidate(const Graph& graph, const Node& node, const Way& way) {
    Candidate c;
    c.algorithm = way.algorithm;
    c.ns = way.ns;
    c.implementation = "fake";
    c.input_layouts = way.inputs;
    c.output_layouts = way.outputs;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      c.input_bytes.push_back(layout_bytes(graph.value(node.inputs[i]), way.inputs[i]));
    for (size_t i = 0; i < node.outputs.size(); ++i)
      c.output_bytes.push_back(layout_bytes(graph.value(node.outputs[i]), way.outputs[i]));
    return c;
  }
};

// The operations in their order, for example "conv2d activation".
inline std::string operations(const Graph& graph) {
  std::string text;
  for (const Node& n : graph.nodes) text += (text.empty() ? "" : " ") + n.op;
  return text;
}

// Empty if every node reads only inputs, persistent values and values that earlier nodes have
// written.
inline std::string order_fault(const Graph& graph) {
  std::set<ValueId> written;
  for (const Node& n : graph.nodes) {
    for (ValueId v : n.inputs) {
      const ValueId s = graph.storage(v);
      const ValueKind kind = graph.value(s).kind;
      if ((kind == ValueKind::kTemporary || kind == ValueKind::kOutput) && !written.contains(s))
        return n.op + " of " + n.layer + " reads " + graph.value(v).name + " before it is written";
    }
    for (ValueId v : n.outputs) written.insert(graph.storage(v));
  }
  return "";
}

}  // namespace runtime::graph

#endif  // TESTS_RUNTIME_GRAPH_FAKE_TARGET_H_
