#include "runtime/exec/compile.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "runtime/exec/decision_cache.h"
#include "runtime/exec/device_target.h"
#include "runtime/graph/fuse.h"
#include "runtime/graph/layout.h"

namespace runtime::exec {

namespace {

std::chrono::nanoseconds budget(Tune tune) {
  switch (tune) {
    case Tune::kQuick:
      return std::chrono::milliseconds(1000);
    case Tune::kFull:
      return std::chrono::nanoseconds::max();
    default:
      return std::chrono::nanoseconds(0);
  }
}

// Whether the device still offers every candidate of a decision. The queries also tell the device
// which layouts are in use, in the order in which the decision was made.
bool is_offered(const graph::Graph& graph, DeviceTarget& target,
                const graph::LayoutDecision& decision) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    if (node.collective) continue;
    const graph::Candidate& wanted = decision[i];
    if (wanted.input_layouts.size() != node.inputs.size() ||
        wanted.output_layouts.size() != node.outputs.size())
      return false;
    const auto matches = [&](const graph::Candidate& c) {
      return c.algorithm == wanted.algorithm && c.input_layouts == wanted.input_layouts &&
             c.output_layouts == wanted.output_layouts && c.input_bytes == wanted.input_bytes &&
             c.output_bytes == wanted.output_bytes;
    };
    const std::vector<uint64_t> any_in(node.inputs.size(), RT_LAYOUT_ANY),
        any_out(node.outputs.size(), RT_LAYOUT_ANY);
    const auto any = target.candidates(graph, node, any_in, any_out);
    if (std::any_of(any.begin(), any.end(), matches)) continue;
    const auto fixed = target.candidates(graph, node, wanted.input_layouts, wanted.output_layouts);
    if (std::none_of(fixed.begin(), fixed.end(), matches)) return false;
  }
  return true;
}

graph::LayoutDecision decide(const graph::Graph& graph, DeviceTarget& target,
                             const DecisionCache& cache, bool measure) {
  if (!measure) return graph::decide_layouts(graph, target, {false});
  auto known = cache.read(graph.nodes.size());
  if (known && is_offered(graph, target, *known)) return *known;
  graph::LayoutDecision decision = graph::decide_layouts(graph, target, {true});
  cache.write(decision);
  return decision;
}

}  // namespace

Compiled compile(graph::Graph graph, std::shared_ptr<plugins::host::Device> device,
                 Storage& storage, Arena& arena, const CompileOptions& options,
                 const std::function<void(graph::Graph&)>& distribute) {
  const bool measure = options.tune != Tune::kOff && !options.deterministic;
  DeviceTarget target(device, options.deterministic,
                      measure ? budget(options.tune) : std::chrono::nanoseconds(0));
  Compiled result;
  graph::remove_dead_nodes(graph);
  result.notes = graph::lower(graph, target);
  graph::fuse(graph, target);
  graph::unfuse(graph, target);
  graph::remove_dead_nodes(graph);
  const DecisionCache cache(
      options.cache_folder,
      decision_key(*device, graph, options.tune == Tune::kFull ? "full" : "quick"));
  graph::apply_layouts(graph, target, decide(graph, target, cache, measure));
  if (distribute) distribute(graph);
  result.program = std::make_unique<Program>(std::move(graph), device, storage, arena,
                                             options.collectives, options.record);
  return result;
}

std::filesystem::path default_cache_folder() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0')
    return std::filesystem::path(xdg) / "runtime";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".cache" / "runtime";
  return {};
}

}  // namespace runtime::exec
