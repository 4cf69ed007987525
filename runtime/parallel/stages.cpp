// Weighs layers by FLOPs, bytes and memory, and finds the cut with the fastest slowest stage.
#include "runtime/parallel/stages.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "runtime/error.h"
#include "runtime/graph/open_nodes.h"

namespace runtime::parallel {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Phase;
using graph::ValueId;
using graph::ValueKind;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Operations that a core does in the time in which it reads or writes one byte, by order of
// magnitude: most nodes are bound by one or the other (Williams, Waterman and Patterson,
// "Roofline", 2009).
constexpr double kFlopsPerByte = 8;
// How much slower than the best cut a stage may be if that saves traffic.
constexpr double kSlack = 1.05;

std::string text(double bytes) {
  return std::to_string(static_cast<int64_t>(bytes / 1024)) + " KiB";
}

// Consecutive forward nodes of one layer; a cut goes between two units.
struct Unit {
  std::string layer;
  int hint = kNone;
  double cost = 0, parameters = 0, kept = 0;  // kept, parameters: bytes
  double crossing = 0;  // bytes that cross a cut between this unit and the next
};

class Assignment {
 public:
  Assignment(Graph& graph, const StageOptions& options) : graph_(graph), options_(options) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      Node& n = graph.nodes[i];
      if (n.phase == Phase::kForward && n.origin == kNone) n.origin = static_cast<int32_t>(i);
      origins_ = std::max(origins_, n.origin + 1);
    }
    unit_of_.assign(origins_, kNone);
  }

  Stages run() {
    make_units();
    place_parameter_nodes();
    const std::vector<int> stage = options_.as.empty() ? cut() : follow();
    Stages stages{options_.stages, std::vector<int>(origins_, 0), {}};
    for (int32_t o = 0; o < origins_; ++o) {
      if (unit_of_[o] != kNone) stages.of_origin[o] = stage[unit_of_[o]];
    }
    for (size_t u = 0; u < units_.size(); ++u) stages.layers.push_back({units_[u].layer, stage[u]});
    return stages;
  }

 private:
  int count() const { return static_cast<int>(units_.size()); }
  bool is_parameter(ValueId s) const {
    return graph_.value(s).kind == ValueKind::kParameter ||
           graph_.value(s).kind == ValueKind::kState;
  }

  void make_units() {
    for (const Node& n : graph_.nodes) {
      if (n.phase != Phase::kForward || from_parameters(n)) continue;
      if (units_.empty() || units_.back().layer != n.layer) {
        const auto hint = options_.hints.find(n.layer);
        units_.push_back({n.layer, hint == options_.hints.end() ? kNone : hint->second});
      }
      unit_of_[n.origin] = count() - 1;
      for (ValueId v : n.inputs) {
        for (ValueId p : parameters_behind(v)) home_.try_emplace(p, count() - 1);
      }
    }
  }

  std::vector<ValueId> parameters_behind(ValueId v) const {
    const ValueId s = graph_.storage(v);
    if (is_parameter(s)) return {s};
    const auto it = derived_.find(s);
    return it == derived_.end() ? std::vector<ValueId>{} : it->second;
  }

  // The stage of each unit, chosen by costs, bytes and hints.
  std::vector<int> cut() {
    add_costs();
    add_bytes();
    check_hints();
    return best();
  }

  // The stage of each unit as in the other step. Stages ascend in that step, so they do here.
  std::vector<int> follow() const {
    std::vector<int> stage(units_.size());
    int behind = options_.stages - 1;
    auto other = options_.as.rbegin();
    for (size_t u = units_.size(); u-- > 0;) {
      const auto same = std::find_if(other, options_.as.rend(), [&](const StagedLayer& s) {
        return s.layer == units_[u].layer;
      });
      if (same != options_.as.rend()) {
        behind = same->stage;
        other = std::next(same);
      }
      stage[u] = behind;
    }
    return stage;
  }

  // Whether the node depends on parameters only. A cast does not count: it belongs to the layer
  // that reads it (graph/mixed_precision.h).
  bool from_parameters(const Node& n) {
    if (kind_of(graph_, n) == graph::Kind::kConverts) return false;
    std::vector<ValueId> all;
    for (ValueId v : n.inputs) {
      const std::vector<ValueId> parameters = parameters_behind(v);
      if (parameters.empty()) return false;
      all.insert(all.end(), parameters.begin(), parameters.end());
    }
    if (all.empty()) return false;
    for (ValueId v : n.outputs) derived_[graph_.storage(v)] = all;
    return true;
  }

  // Assigns these nodes to the first layer that reads the parameter or what is computed from it.
  void place_parameter_nodes() {
    for (const Node& n : graph_.nodes) {
      if (n.phase != Phase::kForward || unit_of_[n.origin] != kNone) continue;
      unit_of_[n.origin] = count() - 1;
      for (ValueId p : parameters_behind(n.outputs.at(0))) {
        if (const auto it = home_.find(p); it != home_.end())
          unit_of_[n.origin] = std::min(unit_of_[n.origin], it->second);
      }
    }
  }

  double cost(const Node& n) const {
    double bytes = 0;
    const auto add = [&](ValueId v) {
      if (!is_parameter(graph_.storage(v)))
        bytes += static_cast<double>(graph::canonical_bytes(graph_.value(v)));
    };
    std::for_each(n.inputs.begin(), n.inputs.end(), add);
    std::for_each(n.outputs.begin(), n.outputs.end(), add);
    return std::max(graph::flops_of_node(graph_, n), kFlopsPerByte * bytes);
  }

  Unit* unit(const Node& n) {
    return n.origin == kNone || unit_of_[n.origin] == kNone ? nullptr : &units_[unit_of_[n.origin]];
  }

  void add_costs() {
    for (const Node& n : graph_.nodes) {
      Unit* const u = unit(n);
      if (u != nullptr && options_.cost.empty()) u->cost += cost(n);
    }
    for (size_t o = 0; o < std::min(options_.cost.size(), unit_of_.size()); ++o) {
      if (unit_of_[o] != kNone) units_[unit_of_[o]].cost += options_.cost[o];
    }
  }

  void add_bytes() {
    struct Use {
      int writer, low, high;
      bool forward, kept = false;
    };
    std::map<ValueId, Use> uses;
    for (const Node& n : graph_.nodes) {
      if (unit(n) == nullptr) continue;
      const int u = unit_of_[n.origin];
      for (ValueId v : n.inputs) {
        const auto it = uses.find(graph_.storage(v));
        if (it == uses.end()) continue;
        it->second.low = std::min(it->second.low, u);
        it->second.high = std::max(it->second.high, u);
        it->second.kept |= it->second.forward && n.phase == Phase::kBackward;
      }
      for (ValueId v : n.outputs) {
        const ValueId s = graph_.storage(v);
        if (!is_parameter(s)) uses.try_emplace(s, Use{u, u, u, n.phase == Phase::kForward});
      }
    }
    for (const auto& [v, use] : uses) {
      const auto bytes = static_cast<double>(graph::canonical_bytes(graph_.value(v)));
      if (use.kept) units_[use.writer].kept += bytes;
      for (int u = use.low; u < use.high; ++u) units_[u].crossing += bytes;
    }
    for (const auto& [p, u] : home_)
      units_[u].parameters += static_cast<double>(graph::canonical_bytes(graph_.value(p)));
  }

  void check_hints() const {
    const Unit* before = nullptr;
    const int last = options_.stages - 1;
    for (const Unit& u : units_) {
      if (u.hint == kNone) continue;
      const std::string says = "layer '" + u.layer + "' has stage = " + std::to_string(u.hint);
      if (u.hint < 0 || u.hint > last)
        throw ConfigurationError(says + ", but the pipeline has stages 0 to " +
                                 std::to_string(last) + "; the nearest is " +
                                 std::to_string(std::clamp(u.hint, 0, last)));
      if (before != nullptr && u.hint < before->hint)
        throw ConfigurationError(says + " behind layer '" + before->layer + "' with stage = " +
                                 std::to_string(before->hint) + "; stages must not go back: give " +
                                 std::to_string(before->hint) + " or more");
      before = &u;
    }
    if (count() < options_.stages)
      throw ConfigurationError("a pipeline of " + std::to_string(options_.stages) +
                               " stages needs as many layers, the model has " +
                               std::to_string(count()) + "; use at most " +
                               std::to_string(count()) + " stages");
  }

  double memory(int stage, double parameters, double kept) const {
    const double in_flight = options_.in_flight.empty() ? 1 : options_.in_flight.at(stage);
    return options_.parameter_copies * parameters + in_flight * kept;
  }

  struct Range {
    int stage, begin, end;
    double cost, memory;
  };

  // The cut with the smallest combined weight of its stages, as the stage of each unit; empty if
  // every cut has infinite weight. Dynamic programming over the last unit of each stage. `result`
  // is the weight.
  template <class Weight, class Combine>
  std::vector<int> solve(const Weight& weight, const Combine& combine, double& result) const {
    const int n = count(), stages = options_.stages;
    std::vector<std::vector<double>> least(stages + 1, std::vector<double>(n + 1, kInfinite));
    std::vector<std::vector<int>> from(stages + 1, std::vector<int>(n + 1, 0));
    least[0][0] = 0;
    for (int s = 0; s < stages; ++s) {
      for (int end = s + 1; end <= n; ++end) {
        double cost = 0, parameters = 0, kept = 0;
        for (int begin = end - 1; begin >= s; --begin) {
          const Unit& u = units_[begin];
          if (u.hint != kNone && u.hint != s) break;
          cost += u.cost;
          parameters += u.parameters;
          kept += u.kept;
          const Range range{s, begin, end, cost, memory(s, parameters, kept)};
          const double total = combine(least[s][begin], weight(range));
          if (total < least[s + 1][end]) {
            least[s + 1][end] = total;
            from[s + 1][end] = begin;
          }
        }
      }
    }
    result = least[stages][n];
    std::vector<int> stage(n, 0);
    for (int s = stages, end = n; s > 0 && result < kInfinite; end = from[s--][end])
      std::fill(stage.begin() + from[s][end], stage.begin() + end, s - 1);
    return result < kInfinite ? stage : std::vector<int>{};
  }

  std::vector<int> best() const {
    const auto larger = [](double a, double b) { return std::max(a, b); };
    const auto fits = [&](const Range& r) {
      return options_.memory_limit == 0 || r.memory <= static_cast<double>(options_.memory_limit);
    };
    double least = 0;
    solve([&](const Range& r) { return fits(r) ? r.cost : kInfinite; }, larger, least);
    if (least == kInfinite) explain_impossible();
    double bytes = 0;
    return solve(
        [&](const Range& r) {
          if (!fits(r) || r.cost > kSlack * least) return kInfinite;
          return r.end < count() ? units_[r.end - 1].crossing : 0;
        },
        [](double a, double b) { return a + b; }, bytes);
  }

  [[noreturn]] void explain_impossible() const {
    double least = 0;
    solve([](const Range& r) { return r.memory; },
          [](double a, double b) { return std::max(a, b); }, least);
    if (least == kInfinite)
      throw ConfigurationError(
          "the `stage` of the layers leaves some of the pipeline's " +
          std::to_string(options_.stages) +
          " stages without a layer; give each stage one, or leave out some of the hints");
    throw ConfigurationError("no cut of the model in " + std::to_string(options_.stages) +
                             " pipeline stages keeps every stage within " +
                             text(static_cast<double>(options_.memory_limit)) +
                             "; the best one needs " + text(least) +
                             ": use more stages, smaller micro-batches or recomputation");
  }

  Graph& graph_;
  const StageOptions& options_;
  int32_t origins_ = 0;
  std::vector<int> unit_of_;  // by origin
  std::vector<Unit> units_;
  std::map<ValueId, std::vector<ValueId>> derived_;  // values computed from parameters only
  std::map<ValueId, int> home_;                      // by parameter: the first unit that reads it
};

}  // namespace

Stages assign_stages(Graph& graph, const StageOptions& options) {
  return Assignment(graph, options).run();
}

}  // namespace runtime::parallel
