// Sums the spans of recorded steps by operation, phase and kind of waiting.
#include "runtime/analysis/profile.h"

#include <algorithm>
#include <tuple>

#include "runtime/analysis/spans.h"
#include "runtime/exec/placement.h"
#include "runtime/graph/host_operations.h"
#include "runtime/graph/print.h"

namespace runtime::analysis {

namespace {

using exec::Span;
using exec::SpanKind;

double length(const Span& span) { return static_cast<double>(span.end_ns - span.begin_ns); }

double sum_of(const train::Recording& recording, SpanKind kind) {
  double ns = 0;
  for (const Span& span : recording.spans) ns += span.kind == kind ? length(span) : 0;
  return ns;
}

// On a device with queues the host runs ahead, so the time of a cycle is that from its first
// operation to its last.
double all_steps_ns(const train::Recording& recording, const std::vector<Span>& operations,
                    bool is_inline) {
  if (is_inline) return sum_of(recording, SpanKind::kStep) + sum_of(recording, SpanKind::kBetween);
  double ns = 0;
  for (const train::RecordedCycle& cycle : recording.cycles) {
    int64_t begin = INT64_MAX, end = 0;
    for (const Span& span : operations) {
      if (span.step < cycle.first_step || span.step >= cycle.first_step + cycle.steps) continue;
      begin = std::min(begin, span.begin_ns);
      end = std::max(end, span.end_ns);
    }
    if (end > begin) ns += static_cast<double>(end - begin);
  }
  return ns;
}

// The time in which at least one of the spans, which are in order, goes on.
double union_ns(const std::vector<Span>& spans) {
  double ns = 0;
  int64_t end = INT64_MIN;
  for (const Span& span : spans) {
    if (span.end_ns > end) ns += static_cast<double>(span.end_ns - std::max(end, span.begin_ns));
    end = std::max(end, span.end_ns);
  }
  return ns;
}

CommunicationProfile communication_of(const train::Recording& recording,
                                      const std::vector<Span>& operations, double steps) {
  CommunicationProfile sum;
  for (const Span& span : operations) {
    const graph::Node& node = node_of(span);
    if (!node.collective) continue;
    sum.exposed_ns += length(span) / steps;
    if (node.collective->wait || node.inputs.empty()) continue;
    const graph::Graph& graph = span.program->graph();
    sum.bytes += static_cast<double>(graph::canonical_bytes(graph.value(node.inputs[0]))) / steps;
  }
  const double under_way = union_ns(spans_of(recording, SpanKind::kCollective)) / steps;
  sum.hidden_ns = std::max(0.0, under_way - sum.exposed_ns);
  return sum;
}

using OperationKey = std::tuple<std::string, std::string, std::string, std::string>;

std::vector<OperationProfile> operations_of(const std::vector<Span>& operations, double steps,
                                            const std::optional<Roofline>& limits) {
  struct Sum {
    OperationProfile operation;
    double least_ns = 0;
  };
  std::map<OperationKey, Sum> sums;
  for (const Span& span : operations) {
    const graph::Node& node = node_of(span);
    Sum& sum = sums[{node.layer, node.op, graph::name_of(node.phase), node.implementation}];
    const NodeCost cost = cost_of(*span.program, static_cast<size_t>(span.node));
    sum.operation.calls += 1 / steps;
    sum.operation.ns += length(span) / steps;
    sum.operation.flops += cost.flops / steps;
    sum.operation.bytes += cost.bytes / steps;
    if (limits) sum.least_ns += 1e9 / steps * limits->least_seconds(cost.flops, cost.bytes);
  }
  std::vector<OperationProfile> list;
  for (auto& [key, sum] : sums) {
    OperationProfile& o = sum.operation;
    std::tie(o.layer, o.name, o.phase, o.implementation) = key;
    if (sum.least_ns > 0 && o.ns > 0) o.roofline_share = sum.least_ns / o.ns;
    list.push_back(std::move(o));
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.ns > b.ns; });
  return list;
}

MemoryProfile memory_of(const exec::Program& program, uint64_t persistent) {
  MemoryProfile m;
  m.persistent = persistent;
  const std::vector<uint64_t> alive = alive_bytes(program);
  for (size_t i = 0; i < alive.size(); ++i) {
    const graph::Node& node = program.graph().nodes[i];
    m.timeline.push_back({node.layer + "." + node.op, persistent + alive[i]});
  }
  const auto peak = std::max_element(alive.begin(), alive.end());
  m.peak = persistent + (alive.empty() ? 0 : *peak);
  const int node = static_cast<int>(peak - alive.begin());
  for (const exec::BufferInfo& buffer : program.memory().buffers) {
    if (exec::is_persistent(buffer.kind) || (buffer.first <= node && node <= buffer.last))
      m.alive_at_peak.push_back({buffer.name, buffer.bytes});
  }
  std::stable_sort(m.alive_at_peak.begin(), m.alive_at_peak.end(),
                   [](const NamedBytes& a, const NamedBytes& b) { return a.bytes > b.bytes; });
  return m;
}

}  // namespace

NodeCost cost_of(const exec::Program& program, size_t node) {
  const graph::Graph& graph = program.graph();
  const graph::Node& n = graph.nodes.at(node);
  if (n.collective) return {};
  NodeCost cost{graph::flops(graph, n), 0};
  if (graph::has_kernel(n)) {
    for (const plugins::host::KernelWork& work : program.kernel(node).work())
      cost.bytes += work.bytes;
  }
  if (cost.bytes > 0) return cost;
  for (const auto* list : {&n.inputs, &n.outputs}) {
    for (graph::ValueId v : *list)
      cost.bytes += static_cast<double>(graph::canonical_bytes(graph.value(v)));
  }
  return cost;
}

std::vector<uint64_t> alive_bytes(const exec::Program& program) {
  std::vector<uint64_t> alive(program.graph().nodes.size(), 0);
  for (const exec::BufferInfo& buffer : program.memory().buffers) {
    if (exec::is_persistent(buffer.kind)) continue;
    for (int i = buffer.first; i <= buffer.last; ++i)
      alive.at(static_cast<size_t>(i)) += buffer.bytes;
  }
  return alive;
}

RankProfile make_profile(const train::Recording& recording, train::StepPrograms& programs, int rank,
                         const std::optional<Roofline>& limits) {
  const std::vector<Span> operations = spans_of(recording, SpanKind::kOperation);
  const auto steps = static_cast<double>(recording.steps());
  RankProfile p;
  p.rank = rank;
  p.device = programs.setup().device->id();
  p.steps = recording.steps();
  p.first_step = recording.cycles.front().first_step + 1;
  p.last_step = recording.cycles.back().first_step + recording.cycles.back().steps;
  p.step_ns = all_steps_ns(recording, operations, programs.setup().device->is_inline()) / steps;
  for (const SpanGroup& phase : group_by_phase(operations))
    p.phases[phase.name] += static_cast<double>(phase.end_ns - phase.begin_ns) / steps;
  p.communication = communication_of(recording, operations, steps);
  p.data_wait_ns = sum_of(recording, SpanKind::kData) / steps;
  p.prepare_ns = sum_of(recording, SpanKind::kPrepare) / steps;
  p.upload_ns = sum_of(recording, SpanKind::kUpload) / steps;
  p.report_ns = sum_of(recording, SpanKind::kReport) / steps;
  p.between_ns = sum_of(recording, SpanKind::kBetween) / steps;
  p.exchange_ns = sum_of(recording, SpanKind::kExchange) / steps;
  double wall = 0, cpu = 0;
  for (const train::RecordedCycle& cycle : recording.cycles) {
    wall += cycle.wall_seconds;
    cpu += cycle.cpu_seconds;
  }
  p.cpu_utilisation = wall > 0 ? cpu / wall : 0;
  p.device_utilisation = recording.device_utilisation;
  p.clock = recording.cycles.back().clock;
  p.limits = limits;
  p.operations = operations_of(operations, steps, limits);
  if (!operations.empty())
    p.memory = memory_of(*operations.back().program, programs.rank_model().storage().total_bytes());
  return p;
}

}  // namespace runtime::analysis
