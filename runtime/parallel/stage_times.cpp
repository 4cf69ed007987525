#include "runtime/parallel/stage_times.h"

#include <algorithm>
#include <map>
#include <set>

namespace runtime::parallel {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Phase;
using graph::ValueId;

namespace {

bool counts(const Node& n) {
  return n.origin != kNone && (n.phase == Phase::kForward || n.phase == Phase::kBackward);
}

}  // namespace

std::vector<double> cost_by_origin(const Graph& compiled) {
  std::vector<double> cost;
  for (const Node& n : compiled.nodes) {
    if (!counts(n)) continue;
    cost.resize(std::max<size_t>(cost.size(), n.origin + 1));
    cost[n.origin] += std::max(0.0, n.estimated_ns);
  }
  return cost;
}

StageTimes stage_times(const Graph& compiled, const Stages& stages, int ranks, const Link& link) {
  const std::vector<double> zero(stages.count, 0.0);
  StageTimes times{zero, zero, zero, zero};
  std::map<ValueId, int> writer;           // stage
  std::set<std::pair<ValueId, int>> sent;  // value and the rank that has it
  for (const Node& n : compiled.nodes) {
    if (!counts(n)) continue;
    const int stage = stages.of(n), rank = stage % ranks;
    (n.phase == Phase::kForward ? times.forward : times.backward)[stage] +=
        std::max(0.0, n.estimated_ns) * 1e-9;
    for (ValueId v : n.inputs) {
      const ValueId s = compiled.storage(v);
      const auto it = writer.find(s);
      if (it == writer.end() || it->second % ranks == rank || !sent.emplace(s, rank).second)
        continue;
      (it->second < stage ? times.send_forward : times.send_backward)[it->second] +=
          collective_seconds(RT_SEND, graph::canonical_bytes(compiled.value(s)), 2, link);
    }
    for (ValueId v : n.outputs) {
      if (compiled.value(compiled.storage(v)).kind == graph::ValueKind::kTemporary)
        writer[compiled.storage(v)] = stage;
    }
  }
  return times;
}

}  // namespace runtime::parallel
