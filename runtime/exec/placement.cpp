// Finds the first and last node of each buffer, shares memory in place, and asks for offsets.
#include "runtime/exec/placement.h"

#include <algorithm>

#include "runtime/graph/memory.h"

namespace runtime::exec {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;
using graph::ValueKind;

bool is_persistent(ValueKind kind) {
  return kind == ValueKind::kParameter || kind == ValueKind::kState || kind == ValueKind::kPacked ||
         kind == ValueKind::kConstant;
}

namespace {

struct Life {
  int first = -1, last = -1;
};

class Placer {
 public:
  Placer(const Graph& graph, const std::vector<NodeNeeds>& needs, uint64_t alignment,
         uint64_t piece)
      : graph_(graph),
        needs_(needs),
        alignment_(alignment),
        piece_(piece),
        lives_(graph.values.size()),
        buffer_of_(graph.values.size(), -1) {}

  Placement run() {
    find_lives();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (size_t k = 0; k < graph_.nodes[i].outputs.size(); ++k)
        give_buffer(static_cast<int>(i), k);
    }
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (lives_[v].first >= 0 && buffer_of_[v] < 0) new_buffer(static_cast<ValueId>(v));
    }
    add_workspaces();
    return finish();
  }

 private:
  void touch(ValueId v, int node) {
    const ValueId s = graph_.storage(v);
    const ValueKind kind = graph_.value(s).kind;
    if (is_persistent(kind)) return;
    Life& life = lives_[s];
    if (kind != ValueKind::kTemporary) {
      life = {0, static_cast<int>(graph_.nodes.size()) - 1};
      return;
    }
    if (life.first < 0) life.first = node;
    life.last = node;
  }

  void find_lives() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& n = graph_.nodes[i];
      for (ValueId v : n.inputs) touch(v, static_cast<int>(i));
      for (ValueId v : n.outputs) touch(v, static_cast<int>(i));
      // What an operation saves on a fallback device lies in the memory of the host.
      if (n.saved != kNone && !n.on_fallback) touch(n.saved, static_cast<int>(i));
    }
  }

  void new_buffer(ValueId s) {
    const Life& life = lives_[s];
    buffer_of_[s] = static_cast<int>(placement_.buffers.size());
    placement_.buffers.push_back({{s}, graph_.value(s).bytes, 0, life.first, life.last});
  }

  // Gives output k of node i the buffer of an input that ends there, or a new one.
  void give_buffer(int i, size_t k) {
    const Node& n = graph_.nodes[i];
    const ValueId s = graph_.storage(n.outputs[k]);
    if (lives_[s].first != i || buffer_of_[s] >= 0) return;
    if (k < needs_[i].in_place.size() && graph_.value(s).kind == ValueKind::kTemporary) {
      for (size_t in = 0; in < n.inputs.size(); ++in) {
        if ((needs_[i].in_place[k] >> in & 1) && is_all(n.outputs[k], s) &&
            is_all(n.inputs[in], graph_.storage(n.inputs[in])) &&
            take_over(i, graph_.storage(n.inputs[in]), s))
          return;
      }
    }
    new_buffer(s);
  }

  // Whether `v` covers its whole storage value.
  bool is_all(ValueId v, ValueId storage) const {
    return v == storage || graph::canonical_bytes(graph_.value(v)) == graph_.value(storage).bytes;
  }

  // The last node that uses `operand` on behalf of node i: for the start of a collective its wait.
  int end_of(int i, ValueId operand) const {
    const auto& collective = graph_.nodes[i].collective;
    if (!collective) return i;
    for (size_t k = i + 1; k < graph_.nodes.size(); ++k) {
      const Node& n = graph_.nodes[k];
      if (n.collective && n.collective->token == collective->token) return static_cast<int>(k);
      const auto is_operand = [&](ValueId v) { return graph_.storage(v) == operand; };
      if (std::any_of(n.inputs.begin(), n.inputs.end(), is_operand)) break;
    }
    return i;
  }

  bool take_over(int i, ValueId from, ValueId to) {
    const int end = end_of(i, from);
    if (graph_.value(from).kind != ValueKind::kTemporary || lives_[from].last != end ||
        buffer_of_[from] < 0)
      return false;
    // If another operand lies in the same memory, the kernel would overwrite it while reading it.
    const std::vector<ValueId>& inputs = graph_.nodes[i].inputs;
    if (std::count_if(inputs.begin(), inputs.end(),
                      [&](ValueId v) { return graph_.storage(v) == from; }) != 1) {
      return false;
    }
    PlacedBuffer& buffer = placement_.buffers[buffer_of_[from]];
    // Another output of the node may have taken the buffer and end here too, unread.
    if (buffer.last != end || buffer.values.back() != from ||
        buffer.bytes != graph_.value(to).bytes)
      return false;
    buffer.values.push_back(to);
    buffer.last = lives_[to].last;
    buffer_of_[to] = buffer_of_[from];
    return true;
  }

  void add_workspaces() {
    workspace_buffer_.assign(graph_.nodes.size(), -1);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (needs_[i].workspace_bytes == 0) continue;
      workspace_buffer_[i] = static_cast<int>(placement_.buffers.size());
      placement_.buffers.push_back(
          {{}, needs_[i].workspace_bytes, 0, static_cast<int>(i), static_cast<int>(i)});
    }
  }

  Placement finish() {
    std::vector<graph::BufferRequest> requests;
    for (const PlacedBuffer& b : placement_.buffers) requests.push_back({b.bytes, b.first, b.last});
    const graph::MemoryPlan plan = graph::plan_memory(requests, alignment_, piece_);
    for (size_t b = 0; b < placement_.buffers.size(); ++b)
      placement_.buffers[b].offset = plan.offsets[b];
    placement_.arena_bytes = plan.bytes;
    placement_.lower_bound = plan.lower_bound;
    const auto offset = [&](int b) { return b < 0 ? Placement::kNowhere : plan.offsets[b]; };
    for (int b : buffer_of_) placement_.value_offsets.push_back(offset(b));
    for (int b : workspace_buffer_) placement_.workspace_offsets.push_back(offset(b));
    return std::move(placement_);
  }

  const Graph& graph_;
  const std::vector<NodeNeeds>& needs_;
  uint64_t alignment_, piece_;
  std::vector<Life> lives_;     // by storage value
  std::vector<int> buffer_of_;  // by storage value
  std::vector<int> workspace_buffer_;
  Placement placement_;
};

}  // namespace

Placement place_values(const Graph& graph, const std::vector<NodeNeeds>& needs, uint64_t alignment,
                       uint64_t piece) {
  return Placer(graph, needs, alignment, piece).run();
}

}  // namespace runtime::exec
