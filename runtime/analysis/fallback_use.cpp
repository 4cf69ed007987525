// Sums calls, bytes and times of nodes that run on the fallback device.
#include "runtime/analysis/fallback_use.h"

#include <algorithm>
#include <tuple>

#include "runtime/graph/print.h"

namespace runtime::analysis {

namespace {

FallbackUse& use_of(const graph::Node& node, std::vector<FallbackUse>& uses) {
  const auto key = [](const FallbackUse& u) { return std::tie(u.phase, u.layer, u.operation); };
  FallbackUse wanted;
  wanted.phase = graph::name_of(node.phase);
  wanted.layer = node.layer;
  wanted.operation = node.op;
  const auto found = std::find_if(uses.begin(), uses.end(),
                                  [&](const FallbackUse& u) { return key(u) == key(wanted); });
  return found != uses.end() ? *found : uses.emplace_back(std::move(wanted));
}

}  // namespace

// The time of a measured node is that of its kernel and of its copies.
void add_fallback_uses(const exec::Program& program, bool measured,
                       std::vector<FallbackUse>& uses) {
  for (size_t i = 0; i < program.graph().nodes.size(); ++i) {
    const graph::Node& node = program.graph().nodes[i];
    if (!node.on_fallback) continue;
    const exec::FallbackCost cost = program.fallback().cost(i);
    const double estimate = exec::host_copy_ns(cost.bytes_to_host + cost.bytes_from_host);
    const double kernel =
        measured ? std::min(cost.kernel_ns, node.estimated_ns) : node.estimated_ns - estimate;
    FallbackUse& use = use_of(node, uses);
    ++use.launches;
    use.bytes_to_host += cost.bytes_to_host;
    use.bytes_from_host += cost.bytes_from_host;
    use.kernel_ns += std::max(kernel, 0.0);
    use.copy_ns += measured ? node.estimated_ns - kernel : estimate;
  }
}

}  // namespace runtime::analysis
