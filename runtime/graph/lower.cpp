// Marks refused operations for the fallback device or replaces them by compositions, and lists what
// is missing.
#include "runtime/graph/lower.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "rt/sdk/tensor.h"
#include "runtime/error.h"
#include "runtime/graph/build.h"
#include "runtime/graph/formula.h"
#include "runtime/graph/host_operations.h"
#include "runtime/graph/operation_set.h"
#include "runtime/graph/packed_attention.h"

namespace runtime::graph {

namespace {

constexpr const char* kBaseSet =
    "a device that supports the base set of plugins/operations.md (the mandatory operations, "
    "embedding and embedding_backward, and exp, log, sqrt and reciprocal of activation) runs every "
    "model in float32 and float64";

constexpr const char* kLarge =
    "set a smaller training.micro_batch_size, which keeps the batch but takes more passes, or a "
    "smaller training.global_batch_size";

constexpr const char* kOpen =
    "an operation of a plugin that gives no formula for it runs only on devices whose plugin knows "
    "it by name";

class Lowering {
 public:
  Lowering(Graph& graph, Target& target, bool all)
      : graph_(graph), target_(target), all_(all), build_(graph) {}

  std::vector<std::string> run() {
    const std::vector<std::string> packed = pack_attention(graph_, target_);
    report_.insert(packed.begin(), packed.end());
    NodeList nodes = std::exchange(graph_.nodes, {});
    find_pairs(nodes);
    for (Node& node : nodes) lower(std::move(node));
    if (!missing_.empty()) refuse();
    std::vector<std::string> lines(report_.begin(), report_.end());
    for (const auto& [op, line] : fallbacks_) lines.push_back(line);
    return lines;
  }

 private:
  using NodeList = std::vector<Node>;
  struct Missing {
    std::string layer, reason;
    std::string of;      // the operation that is composed of it; empty: the model has it
    bool large = false;  // has an operand of more elements than 32 bits count
    std::set<std::string> layers = {};
  };

  // A forward and a backward node that share saved data run on one device, or both are composed.
  void find_pairs(const NodeList& nodes) {
    for (const Node& node : nodes) {
      if (node.saved != kNone && has_kernel(node) && refusal(node)) refused_.insert(node.saved);
    }
    for (const Node& node : nodes) {
      if (node.saved != kNone && refused_.contains(node.saved) && !fits_fallback(node))
        composed_.insert(node.saved);
    }
  }

  // Whether no device is expected to know the operation, so that nobody wants to hear of it.
  bool is_always_composed(const Node& node) const {
    const Operation& operation = operation_of(graph_, node);
    return operation.defined_by == DefinedBy::kCore ||
           (operation.defined_by == DefinedBy::kPlugin && operation.kind == Kind::kOptimizer);
  }

  std::optional<Formula> formula_of(const Operation& operation, const Node& node) const {
    if (operation.formula_rule != nullptr) return operation.formula_rule(graph_, node);
    return operation.formula.text.empty() ? std::nullopt : std::optional(operation.formula);
  }

  bool fits_fallback(Node node) {
    if (target_.fallback_name().empty() || is_always_composed(node)) return false;
    node.on_fallback = true;
    return target_.support(graph_, node).supported;
  }

  // Marks a node that the target refuses, for `reason`, if the fallback device supports it.
  bool fall_back(Node& node, const std::string& reason) {
    if (composed_.contains(node.saved) || !fits_fallback(node)) return false;
    node.on_fallback = true;
    fallbacks_.try_emplace(node.op, node.op + " runs on " + target_.fallback_name() + ": " +
                                        target_.name() + " refuses " + reason);
    return true;
  }

  // What the target refuses, for the log.
  static std::string refused(const Node& node, const Support& support) {
    if (!support.supported) return "it (" + support.reason + ")";
    return std::string(node.is_backward() ? "its forward" : "its backward") + " operation";
  }

  // Why the target refuses the node; nullopt if it does not.
  std::optional<std::string> refusal(const Node& node) {
    const Support support = target_.support(graph_, node);
    return support.supported ? std::nullopt : std::optional(support.reason);
  }

  bool in_sixteen_bits(const Node& node) const {
    const auto is = [&](ValueId v) {
      return v != kNone && rt::sdk::is_sixteen_bit(graph_.value(v).dtype);
    };
    return std::any_of(node.inputs.begin(), node.inputs.end(), is) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), is);
  }

  void lower(Node node) {
    if (!has_kernel(node) || (all_ && !node.implementation.empty())) return keep(std::move(node));
    const Support support = target_.support(graph_, node);
    if (support.emulated) {
      report_.insert(node.op + " of layer '" + node.layer + "' is slow: " + target_.name() +
                     " emulates it (" + support.reason + ")");
    }
    const bool saves = node.saved != kNone && refused_.contains(node.saved);
    if (support.supported && !saves) return keep(std::move(node));
    if (fall_back(node, refused(node, support))) return keep(std::move(node));
    const Operation& operation = operation_of(graph_, node);
    const std::optional<Formula> formula = formula_of(operation, node);
    if (!formula || in_sixteen_bits(node)) return miss(node, support.reason, "");
    if (!all_ && operation.composed == Composed::kLate) return keep(std::move(node));
    compose(node, *formula);
    if (is_always_composed(node)) return;
    report_.insert(node.op + " is composed of other operations: " + target_.name() + " refuses " +
                   refused(node, support));
  }

  void keep(Node node) { graph_.nodes.push_back(std::move(node)); }

  void compose(const Node& node, const Formula& formula) {
    build_.layer = node.layer;
    build_.phase = node.phase;
    const size_t first = graph_.nodes.size();
    const bool saves = node.saved != kNone;
    const Terms terms =
        expand(build_, node, formula, saves && node.is_backward() ? saved_[node.saved] : Terms{});
    if (saves && !node.is_backward()) saved_[node.saved] = terms;
    for (size_t i = first; i < graph_.nodes.size(); ++i) {
      Node& made = graph_.nodes[i];
      made.origin = node.origin;
      if (!has_kernel(made)) continue;
      const auto reason = refusal(made);
      if (reason && !fall_back(made, "it (" + *reason + ")")) miss(made, *reason, node.op);
    }
  }

  void miss(const Node& node, const std::string& reason, const std::string& of) {
    const std::string why =
        (reason.empty() ? "it saves data for an operation that is refused" : reason) +
        refused_by_fallback(node);
    Missing& missing =
        missing_.try_emplace(node.op, Missing{node.layer, why, of, is_large(node)}).first->second;
    missing.layers.insert(node.layer);
  }

  bool is_large(const Node& node) const {
    const auto is = [&](ValueId v) {
      return v != kNone &&
             element_count(graph_.value(v).dims) > std::numeric_limits<int32_t>::max();
    };
    return std::any_of(node.inputs.begin(), node.inputs.end(), is) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), is);
  }

  // What the fallback device says against a node that the target refuses.
  std::string refused_by_fallback(Node node) {
    if (target_.fallback_name().empty()) return "";
    node.on_fallback = true;
    const Support support = target_.support(graph_, node);
    if (support.supported) return "";  // its partner is refused
    return "; " + target_.fallback_name() + " refuses it, too (" + support.reason + ")";
  }

  std::string other_fallback() const {
    const std::string name = target_.fallback_name();
    return name.empty() ? "another one" : "another one than " + name;
  }

  // The operations that nothing can run and why, after `text`.
  std::string list_missing(std::string text) const {
    for (const auto& [op, m] : missing_) {
      text += "\n  " + op + " for layer '" + m.layer + "'";
      if (m.layers.size() > 1) text += " and " + std::to_string(m.layers.size() - 1) + " more";
      if (!m.of.empty()) text += ", of which " + m.of + " is composed";
      text += ": " + m.reason;
    }
    return text + "\n";
  }

  [[noreturn]] void refuse() const {
    const bool large =
        std::all_of(missing_.begin(), missing_.end(), [](const auto& m) { return m.second.large; });
    if (large) {
      throw DeviceError(list_missing("this batch does not fit " + target_.name() +
                                     ": its tensors are larger than the kernels can count:") +
                        kLarge);
    }
    const std::string text =
        list_missing(target_.name() + " lacks operations that this model needs:");
    const bool open = std::any_of(missing_.begin(), missing_.end(),
                                  [](const auto& m) { return is_open(m.first); });
    throw DeviceError(text + (open ? kOpen : kBaseSet) +
                      "; choose another device.backend (runtime devices lists them), or let " +
                      other_fallback() + " run what this one refuses (device.host_fallback)");
  }

  Graph& graph_;
  Target& target_;
  bool all_;
  Build build_;
  std::set<ValueId> refused_;                 // data that operations would save or read, one of
                                              // which the target refuses
  std::set<ValueId> composed_;                // those of refused_ that composed operations save
  std::unordered_map<ValueId, Terms> saved_;  // the terms that take their place
  std::map<std::string, Missing> missing_;    // by operation
  std::set<std::string> report_;
  std::map<std::string, std::string> fallbacks_;  // a line for each operation
};

}  // namespace

std::vector<std::string> lower(Graph& graph, Target& target) {
  return Lowering(graph, target, false).run();
}

std::vector<std::string> lower_rest(Graph& graph, Target& target) {
  return Lowering(graph, target, true).run();
}

}  // namespace runtime::graph
