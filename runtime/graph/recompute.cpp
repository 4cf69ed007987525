// Copies the nodes of a block in front of its first backward node that needs them.
#include "runtime/graph/recompute.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "runtime/graph/rewriter.h"

namespace runtime::graph {

namespace {

// Recomputes one block.
class Recompute {
 public:
  Recompute(Graph& graph, const std::string& block)
      : graph_(graph), block_(block), node_copies_(graph) {
    find_own();
    find_needed();
  }

  void run() {
    if (first_reader_ == graph_.nodes.size()) return;
    Insertions insertions(graph_.nodes.size());
    // A reader stands behind the nodes of the block, so it is never the first node.
    NodeList& before = insertions.after(first_reader_ - 1);
    for (size_t i : copied()) before.push_back(copy_of(graph_.nodes[i]));
    for (size_t i = first_reader_; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      if (!is_backward(node)) continue;
      replace(node.inputs, [&](ValueId v) { return read(v); });
      node.saved = read(node.saved);
    }
    for (size_t i : own_) {
      if (is_needed(graph_.nodes[i].saved)) graph_.nodes[i].saved = kNone;
    }
    graph_.nodes = insertions.applied_to(std::move(graph_.nodes));
  }

 private:
  static bool is_backward(const Node& node) { return node.phase == Phase::kBackward; }

  bool is_own(const Node& node) const {
    return node.phase == Phase::kForward && node.layer.starts_with(block_) &&
           (node.layer.size() == block_.size() || node.layer[block_.size()] == '.');
  }

  // Finds the block's nodes, and their outputs that no forward node outside of the block reads.
  void find_own() {
    std::set<ValueId> outside;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (is_own(node)) {
        own_.push_back(i);
        for (ValueId v : node.outputs) inner_.insert(graph_.storage(v));
      } else if (node.phase == Phase::kForward) {
        for (ValueId v : node.inputs) outside.insert(graph_.storage(v));
      }
    }
    std::erase_if(inner_, [&](ValueId v) {
      return graph_.value(v).kind != ValueKind::kTemporary || outside.contains(v);
    });
    for (size_t i : own_) {
      const Node& node = graph_.nodes[i];
      const bool all_inner = std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
        const ValueId s = graph_.storage(v);
        return inner_.contains(s) || graph_.value(s).kind == ValueKind::kState;
      });
      if (node.saved != kNone && all_inner) inner_.insert(node.saved);
    }
  }

  // Finds the inner values that backward nodes read, and the first such node.
  void find_needed() {
    first_reader_ = graph_.nodes.size();
    const auto need = [&](ValueId v, size_t reader) {
      if (v == kNone || !inner_.contains(graph_.storage(v))) return;
      needed_.insert(graph_.storage(v));
      first_reader_ = std::min(first_reader_, reader);
    };
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!is_backward(graph_.nodes[i])) continue;
      for (ValueId v : graph_.nodes[i].inputs) need(v, i);
      need(graph_.nodes[i].saved, i);
    }
  }

  // The block's nodes that must run again for the needed values, in execution order.
  std::vector<size_t> copied() {
    std::vector<size_t> result;
    for (size_t k = own_.size(); k-- > 0;) {
      const Node& node = graph_.nodes[own_[k]];
      const bool wanted = std::any_of(node.outputs.begin(), node.outputs.end(),
                                      [&](ValueId v) { return is_needed(v); });
      if (!wanted && !is_needed(node.saved)) continue;
      result.push_back(own_[k]);
      for (ValueId v : node.inputs) {
        if (inner_.contains(graph_.storage(v))) needed_.insert(graph_.storage(v));
      }
    }
    std::reverse(result.begin(), result.end());
    return result;
  }

  Node copy_of(const Node& node) {
    Node copy = node_copies_.copy(
        node, [&](ValueId v) { return read(v); }, [&](ValueId v) { return written(v); });
    copy.phase = Phase::kBackward;
    copy.saved = is_needed(copy.saved) ? written(copy.saved) : kNone;
    return copy;
  }

  bool is_needed(ValueId v) const { return v != kNone && needed_.contains(graph_.storage(v)); }

  ValueId read(ValueId v) { return is_needed(v) ? written(v) : v; }

  // The value that the copied node writes instead of `v`. For a running statistic it is a temporary
  // that no node reads.
  ValueId written(ValueId v) {
    if (const auto it = copies_.find(v); it != copies_.end()) return it->second;
    Value copy = graph_.value(v);
    const bool alone = graph_.value(graph_.storage(v)).kind != ValueKind::kTemporary;
    copy.kind = ValueKind::kTemporary;
    if (alone) {
      copy.base = kNone;
      copy.offset = 0;
    }
    if (copy.base != kNone) copy.base = written(copy.base);
    return copies_[v] = graph_.add_value(std::move(copy));
  }

  Graph& graph_;
  const std::string& block_;
  std::vector<size_t> own_;           // indices of the block's forward nodes
  std::set<ValueId> inner_, needed_;  // values with memory of their own (Graph::storage)
  size_t first_reader_ = 0;
  std::unordered_map<ValueId, ValueId> copies_;
  NodeCopies node_copies_;
};

}  // namespace

void recompute(Graph& graph, const std::vector<std::string>& blocks) {
  for (const std::string& block : blocks) Recompute(graph, block).run();
}

}  // namespace runtime::graph
