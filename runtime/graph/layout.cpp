// Improves the choice of candidates node by node from several starts, until no change helps.
#include "runtime/graph/layout.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <unordered_map>

#include "rt/sdk/foreign_layout.h"
#include "runtime/error.h"
#include "runtime/graph/host_operations.h"

namespace runtime::graph {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Enough for every algorithm of a node in the few layouts that its neighbours offer.
constexpr size_t kMaxCandidates = 24;
constexpr int kMaxSweeps = 12;

// A use of a value: operand `operand` of node `node`.
struct Use {
  size_t node;
  size_t operand;
};

// Whether a use of `v` in the layout sees the memory of another value without a copy.
bool sees_rows_of_owner(const Graph& graph, ValueId v, uint64_t layout) {
  return rt::sdk::is_row_layout(layout) && owner_of_rows(graph, v) != v;
}

// The layouts of the operands if a loss follows its logits into a row layout: that of the first
// input, also for outputs with its dims.
std::vector<uint64_t> following(const Graph& graph, const Node& node,
                                const std::vector<ValueId>& operands, uint64_t layout) {
  const Dims& logits = graph.value(node.inputs[0]).dims;
  std::vector<uint64_t> layouts;
  for (ValueId v : operands) {
    const bool follows =
        v == node.inputs[0] || (&operands == &node.outputs && graph.value(v).dims == logits);
    layouts.push_back(follows ? layout : RT_LAYOUT_CANONICAL);
  }
  return layouts;
}

// Whether a kernel of the device is chosen for the node. The others are collectives, what the host
// computes, and what lower_rest() composes.
bool is_chosen(const Graph& graph, Target& target, const Node& node) {
  return has_kernel(node) && target.support(graph, node).supported;
}

// Nanoseconds of a copy between two layouts. A copy between two foreign layouts (any but the
// canonical row-major one) may have to go through the canonical one.
double reorder_ns(Target& target, const Value& value, uint64_t from, uint64_t to) {
  const double direct = target.copy_ns(value, from, to);
  if (from == RT_LAYOUT_CANONICAL || to == RT_LAYOUT_CANONICAL) return direct;
  return std::min(direct, target.copy_ns(value, from, RT_LAYOUT_CANONICAL) +
                              target.copy_ns(value, RT_LAYOUT_CANONICAL, to));
}

// Whether the values of parameters outlive many runs of the graph, as in inference: a packed copy
// of one is then made once (Phase::kPack) and read in every run.
bool keeps_parameters(const Graph& graph) {
  return std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) {
    return n.phase == Phase::kBackward || n.phase == Phase::kUpdate;
  });
}

// Whether `v` is a parameter, a view of one, or a packed copy.
bool is_parameter(const Graph& graph, ValueId v) {
  const ValueKind kind = graph.value(graph.storage(v)).kind;
  return kind == ValueKind::kParameter || kind == ValueKind::kPacked;
}

class LayoutChoice {
 public:
  LayoutChoice(const Graph& graph, Target& target)
      : graph_(graph),
        target_(target),
        candidates_(graph.nodes.size()),
        partner_(graph.nodes.size(), graph.nodes.size()),
        keeps_parameters_(keeps_parameters(graph)) {
    find_uses();
    find_partners();
    collect_candidates();
    if (target.measures()) measure();
  }

  LayoutDecision run() {
    std::vector<size_t> best;
    double best_cost = kInfinite;
    for (int start = 0; start < 3; ++start) {
      initialise(start);
      improve();
      const double cost = total_cost();
      if (cost < best_cost) {
        best_cost = cost;
        best = chosen_;
      }
    }
    chosen_ = best;
    LayoutDecision decision;
    for (size_t i = 0; i < node_count(); ++i) decision.push_back(choice(i));
    return decision;
  }

 private:
  size_t node_count() const { return graph_.nodes.size(); }
  bool has_partner(size_t i) const { return partner_[i] < node_count(); }
  const Candidate& choice(size_t i) const { return candidates_[i][chosen_[i]]; }

  void find_uses() {
    uses_.resize(graph_.values.size());
    row_uses_.resize(graph_.values.size());
    written_by_.resize(graph_.values.size(), {node_count(), 0});
    viewed_.resize(graph_.values.size());
    for (size_t i = 0; i < node_count(); ++i) {
      const Node& n = graph_.nodes[i];
      for (size_t k = 0; k < n.inputs.size(); ++k) {
        uses_[n.inputs[k]].push_back({i, k});
        if (graph_.value(n.inputs[k]).base == kNone) continue;
        const ValueId owner = owner_of_rows(graph_, n.inputs[k]);
        if (owner != n.inputs[k]) {
          row_uses_[owner].push_back({i, k});
        } else {
          viewed_[graph_.storage(n.inputs[k])] = true;
        }
      }
      for (size_t k = 0; k < n.outputs.size(); ++k) {
        written_by_[n.outputs[k]] = {i, k};
        if (graph_.value(n.outputs[k]).base != kNone) viewed_[graph_.storage(n.outputs[k])] = true;
      }
    }
  }

  // Pairs each forward node with its partner, the backward node that reads what the forward node
  // saved (Node::saved). The backward node must use the same layouts.
  void find_partners() {
    std::unordered_map<ValueId, size_t> forward;
    for (size_t i = 0; i < node_count(); ++i) {
      const Node& n = graph_.nodes[i];
      if (n.saved == kNone) continue;
      if (!n.is_backward()) {
        forward.emplace(n.saved, i);
      } else if (const auto it = forward.find(n.saved); it != forward.end()) {
        partner_[it->second] = i;
        follows_.insert(i);
      }
    }
  }

  // Whether a forward candidate f and a backward candidate b of one layer agree: dy has the layout
  // of y, dx that of x.
  bool compatible(size_t forward, const Candidate& f, const Candidate& b) const {
    // x, dy -> dw, db has no dx, and reads x in its place.
    if (graph_.nodes[forward].op == RT_OP_CONV2D_POOL2D)
      return b.input_layouts[0] == f.input_layouts[0] && b.input_layouts[1] == f.output_layouts[0];
    if (b.input_layouts[0] != f.output_layouts[0] || b.output_layouts[0] != f.input_layouts[0])
      return false;
    return graph_.nodes[forward].op != RT_OP_BATCH_NORM || b.input_layouts[1] == f.input_layouts[0];
  }

  // Measures the costliest nodes first, because the target may stop when its time is up.
  void measure() {
    std::vector<size_t> order(node_count());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return candidates_[a][0].ns > candidates_[b][0].ns;
    });
    for (size_t i : order) {
      if (candidates_[i].size() > 1) target_.measure(graph_, graph_.nodes[i], candidates_[i]);
    }
    // Measuring has removed candidates that failed, perhaps the only ones that fitted a forward
    // candidate.
    drop_widowed();
  }

  // The only candidate of a node without a kernel, whose operands stay canonical.
  Candidate canonical_candidate(const Node& n) const {
    Candidate c;
    for (ValueId v : n.inputs) {
      c.input_layouts.push_back(RT_LAYOUT_CANONICAL);
      c.input_bytes.push_back(canonical_bytes(graph_.value(v)));
    }
    for (ValueId v : n.outputs) {
      c.output_layouts.push_back(RT_LAYOUT_CANONICAL);
      c.output_bytes.push_back(canonical_bytes(graph_.value(v)));
    }
    return c;
  }

  void merge(std::vector<Candidate>& into, std::vector<Candidate> more) {
    for (Candidate& c : more) {
      const bool known = std::any_of(into.begin(), into.end(), [&](const Candidate& o) {
        return o.algorithm == c.algorithm && o.input_layouts == c.input_layouts &&
               o.output_layouts == c.output_layouts;
      });
      if (!known && into.size() < kMaxCandidates) into.push_back(std::move(c));
    }
  }

  // Asks whether loss i can read its logits in the row layouts that their producer offers.
  void follow_logits(size_t i, const std::set<uint64_t>& layouts) {
    const Node& n = graph_.nodes[i];
    for (uint64_t layout : layouts) {
      if (!rt::sdk::is_row_layout(layout)) continue;
      merge(candidates_[i], target_.candidates(graph_, n, following(graph_, n, n.inputs, layout),
                                               following(graph_, n, n.outputs, layout)));
    }
  }

  void collect_candidates() {
    std::vector<std::set<uint64_t>> seen(graph_.values.size());
    for (size_t i = 0; i < node_count(); ++i) {
      const Node& n = graph_.nodes[i];
      if (!is_chosen(graph_, target_, n)) {
        candidates_[i] = {canonical_candidate(n)};
        continue;
      }
      const std::vector<uint64_t> any_in = any_layouts(graph_, n, n.inputs),
                                  any_out = any_layouts(graph_, n, n.outputs);
      const std::vector<uint64_t> plain_in(n.inputs.size(), RT_LAYOUT_CANONICAL),
          plain_out(n.outputs.size(), RT_LAYOUT_CANONICAL);
      merge(candidates_[i], target_.candidates(graph_, n, plain_in, plain_out));
      merge(candidates_[i], target_.candidates(graph_, n, any_in, any_out));
      if (rt::sdk::follows_row_layout(n.op)) {
        follow_logits(i, seen[owner_of_rows(graph_, n.inputs[0])]);
      }
      for (size_t k = 0; k < n.inputs.size(); ++k) {
        if (any_in[k] != RT_LAYOUT_ANY) continue;
        const ValueId owner = owner_of_rows(graph_, n.inputs[k]);
        for (uint64_t layout : seen[owner]) {
          if (owner != n.inputs[k] && !rt::sdk::is_row_layout(layout)) continue;
          std::vector<uint64_t> in = any_in;
          in[k] = layout;
          merge(candidates_[i], target_.candidates(graph_, n, in, any_out));
        }
      }
      if (candidates_[i].empty()) {
        throw DeviceError("layer '" + n.layer + "': " + target_.name() + " supports " + n.op +
                          " but offers no layout for it; this is a defect of the plugin");
      }
      for (const Candidate& c : candidates_[i]) {
        for (size_t k = 0; k < n.outputs.size(); ++k) {
          if (c.output_layouts[k] != RT_LAYOUT_CANONICAL &&
              is_plain_temporary(graph_.value(n.outputs[k])))
            seen[n.outputs[k]].insert(c.output_layouts[k]);
        }
      }
    }
    drop_widowed();
  }

  // Removes forward candidates for which no backward candidate fits.
  void drop_widowed() {
    for (size_t i = 0; i < node_count(); ++i) {
      if (!has_partner(i)) continue;
      std::erase_if(candidates_[i], [&](const Candidate& f) {
        return best_partner(i, f) == candidates_[partner_[i]].size();
      });
      if (candidates_[i].empty()) {
        throw DeviceError("layer '" + graph_.nodes[i].layer + "': " + target_.name() +
                          " offers no layout in which both " + graph_.nodes[i].op +
                          " and its backward run; this is a defect of the plugin");
      }
    }
  }

  size_t best_partner(size_t forward, const Candidate& f) const {
    const std::vector<Candidate>& list = candidates_[partner_[forward]];
    size_t best = list.size();
    for (size_t k = 0; k < list.size(); ++k) {
      if (compatible(forward, f, list[k]) && (best == list.size() || list[k].ns < list[best].ns))
        best = k;
    }
    return best;
  }

  void choose(size_t i, size_t candidate) {
    chosen_[i] = candidate;
    if (has_partner(i)) chosen_[partner_[i]] = best_partner(i, candidates_[i][candidate]);
  }

  // The layout of the value in memory under the present choices.
  uint64_t home(ValueId v) const {
    // All other values stay canonical.
    if (!is_plain_temporary(graph_.value(v)) || written_by_[v].node == node_count())
      return RT_LAYOUT_CANONICAL;
    return choice(written_by_[v].node).output_layouts[written_by_[v].operand];
  }

  // The time of all copies of this value that the present choices need.
  double copy_cost(ValueId v) const {
    if (keeps_parameters_ && is_parameter(graph_, v)) return 0;  // packed once for many steps
    const uint64_t at = home(v);
    double cost = 0;
    if (written_by_[v].node != node_count()) {
      const uint64_t written = choice(written_by_[v].node).output_layouts[written_by_[v].operand];
      if (written != at) cost += reorder_ns(target_, graph_.value(v), written, at);
    }
    std::vector<uint64_t> wanted;
    if (viewed_[v]) wanted.push_back(RT_LAYOUT_CANONICAL);
    for (const Use& use : uses_[v]) {
      const uint64_t layout = choice(use.node).input_layouts[use.operand];
      if (!sees_rows_of_owner(graph_, v, layout)) wanted.push_back(layout);
    }
    for (const Use& use : row_uses_[v]) {
      const uint64_t layout = choice(use.node).input_layouts[use.operand];
      wanted.push_back(rt::sdk::is_row_layout(layout) ? layout : RT_LAYOUT_CANONICAL);
    }
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    for (uint64_t layout : wanted) {
      if (layout != at) cost += reorder_ns(target_, graph_.value(v), at, layout);
    }
    return cost;
  }

  // The costs that depend on the choice at node i.
  double local_cost(size_t i) const {
    double cost = node_cost(i);
    if (has_partner(i)) cost += node_cost(partner_[i]);
    std::set<ValueId> touched;
    const auto touch = [&](size_t n) {
      for (ValueId v : graph_.nodes[n].inputs) touched.insert({v, owner_of_rows(graph_, v)});
      touched.insert(graph_.nodes[n].outputs.begin(), graph_.nodes[n].outputs.end());
    };
    touch(i);
    if (has_partner(i)) touch(partner_[i]);
    for (ValueId v : touched) cost += copy_cost(v);
    return cost;
  }

  double node_cost(size_t i) const { return std::max(choice(i).ns, 0.0); }

  double total_cost() const {
    double cost = 0;
    for (size_t i = 0; i < node_count(); ++i) cost += node_cost(i);
    for (size_t v = 0; v < graph_.values.size() && v < uses_.size(); ++v) {
      if (!uses_[v].empty() || written_by_[v].node != node_count())
        cost += copy_cost(static_cast<ValueId>(v));
    }
    return cost;
  }

  // Start 0: everything canonical. Start 1: the fastest candidate of each node. Start 2: node by
  // node, the candidate with the least time including copies of its inputs.
  void initialise(int start) {
    chosen_.assign(node_count(), 0);
    for (size_t i = 0; i < node_count(); ++i) {
      if (has_partner(i)) choose(i, 0);
    }
    if (start == 0) return;
    for (size_t i = 0; i < node_count(); ++i) {
      if (follows_.contains(i)) continue;
      size_t best = 0;
      double best_cost = kInfinite;
      for (size_t k = 0; k < candidates_[i].size(); ++k) {
        double cost = std::max(candidates_[i][k].ns, 0.0);
        for (size_t o = 0; start == 2 && o < graph_.nodes[i].inputs.size(); ++o) {
          const uint64_t wanted = candidates_[i][k].input_layouts[o];
          ValueId v = graph_.nodes[i].inputs[o];
          if (sees_rows_of_owner(graph_, v, wanted)) v = owner_of_rows(graph_, v);
          const uint64_t at = home(v);
          const bool free = keeps_parameters_ && is_parameter(graph_, v);
          if (at != wanted && !free) cost += reorder_ns(target_, graph_.value(v), at, wanted);
        }
        if (cost < best_cost) {
          best_cost = cost;
          best = k;
        }
      }
      choose(i, best);
    }
  }

  void improve() {
    for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
      bool changed = false;
      for (size_t k = 0; k < node_count(); ++k) {
        // Alternating directions let a good layout travel along a chain in one sweep.
        const size_t i = sweep % 2 == 0 ? k : node_count() - 1 - k;
        if (!follows_.contains(i)) changed |= improve_node(i);
      }
      if (!changed && sweep > 0) return;
    }
  }

  bool improve_node(size_t i) {
    const size_t before = chosen_[i];
    size_t best = before;
    double best_cost = local_cost(i);
    for (size_t k = 0; k < candidates_[i].size(); ++k) {
      choose(i, k);
      // The margin prevents endless changes between choices of equal cost.
      if (const double cost = local_cost(i); cost < best_cost * (1 - 1e-9)) {
        best_cost = cost;
        best = k;
      }
    }
    choose(i, best);
    return best != before;
  }

  const Graph& graph_;
  Target& target_;
  std::vector<std::vector<Candidate>> candidates_;
  std::vector<size_t> chosen_;
  std::vector<size_t> partner_;  // by forward node: its backward node, or node_count()
  std::set<size_t> follows_;     // backward nodes, whose choice follows their forward node
  std::vector<std::vector<Use>> uses_;
  std::vector<std::vector<Use>> row_uses_;  // by value: uses of views whose owner it is
  std::vector<Use> written_by_;
  std::vector<char> viewed_;
  bool keeps_parameters_;
};

// Whether a decision is one for this graph, and the device still offers all of its candidates. The
// queries also tell the device which layouts are in use, in the order in which the decision was
// made.
bool is_offered(const Graph& graph, Target& target, const LayoutDecision& decision) {
  if (decision.size() != graph.nodes.size()) return false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!is_chosen(graph, target, node)) continue;
    const Candidate& wanted = decision[i];
    if (wanted.input_layouts.size() != node.inputs.size() ||
        wanted.output_layouts.size() != node.outputs.size())
      return false;
    const auto matches = [&](const Candidate& c) {
      return c.algorithm == wanted.algorithm && c.input_layouts == wanted.input_layouts &&
             c.output_layouts == wanted.output_layouts && c.input_bytes == wanted.input_bytes &&
             c.output_bytes == wanted.output_bytes;
    };
    const auto any = target.candidates(graph, node, any_layouts(graph, node, node.inputs),
                                       any_layouts(graph, node, node.outputs));
    if (std::any_of(any.begin(), any.end(), matches)) continue;
    const auto fixed = target.candidates(graph, node, wanted.input_layouts, wanted.output_layouts);
    if (std::none_of(fixed.begin(), fixed.end(), matches)) return false;
  }
  return true;
}

}  // namespace

ValueId owner_of_rows(const Graph& graph, ValueId v) {
  const Value& view = graph.value(v);
  const auto [owner, offset] = graph.place_of(v);
  const Value& whole = graph.value(owner);
  const bool same_rows = !view.dims.empty() && !whole.dims.empty() &&
                         view.dims.back() == whole.dims.back() &&
                         element_count(view.dims) == element_count(whole.dims);
  const bool same = offset == 0 && view.dtype == whole.dtype && same_rows;
  return same && whole.kind == ValueKind::kTemporary ? owner : v;
}

std::vector<uint64_t> any_layouts(const Graph& graph, const Node& node,
                                  const std::vector<ValueId>& operands) {
  std::vector<uint64_t> layouts;
  for (ValueId v : operands) {
    const auto rank = static_cast<int32_t>(graph.value(v).dims.size());
    layouts.push_back(rt::sdk::takes_foreign_layout(node.op, rank) ? RT_LAYOUT_ANY
                                                                   : RT_LAYOUT_CANONICAL);
  }
  return layouts;
}

LayoutDecision decide_layouts(const Graph& graph, Target& target) {
  return LayoutChoice(graph, target).run();
}

void choose_layouts(Graph& graph, Target& target) {
  const std::optional<LayoutDecision> known = target.remembered(graph);
  if (known && is_offered(graph, target, *known)) return apply_layouts(graph, target, *known);
  const LayoutDecision decision = decide_layouts(graph, target);
  target.remember(graph, decision);
  apply_layouts(graph, target, decision);
}

}  // namespace runtime::graph
