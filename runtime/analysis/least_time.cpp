// Adds up bytes and FLOPs of the kernels of a step, and the gaps between launches.
#include "runtime/analysis/least_time.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "runtime/graph/host_operations.h"

namespace runtime::analysis {

namespace {

class Sum {
 public:
  explicit Sum(const DeviceLimits& limits) : limits_(limits) {}

  void add(const graph::Node& node, const plugins::host::KernelWork& work, int64_t times) {
    const auto count = static_cast<double>(times);
    KernelTime& kernel = kernels_[{node.op, node.implementation, work.name}];
    kernel.launches += times;
    kernel.bytes += count * work.bytes;
    kernel.flops += count * work.flops;
    kernel.seconds += count * std::max(work.bytes / limits_.bytes_per_second,
                                       work.flops / limits_.flops_per_second);
  }
  void leave_out(const graph::Node& node) { left_out_.insert(node.op); }

  LeastTime result() const {
    LeastTime total;
    for (const auto& [names, kernel] : kernels_) {
      total.kernels.push_back(kernel);
      std::tie(total.kernels.back().operation, total.kernels.back().implementation,
               total.kernels.back().kernel) = names;
      total.launches += kernel.launches;
      total.bytes += kernel.bytes;
      total.flops += kernel.flops;
      total.kernel_seconds += kernel.seconds;
    }
    total.gap_seconds = static_cast<double>(total.launches) * limits_.launch_seconds;
    std::stable_sort(
        total.kernels.begin(), total.kernels.end(),
        [](const KernelTime& a, const KernelTime& b) { return a.seconds > b.seconds; });
    total.left_out.assign(left_out_.begin(), left_out_.end());
    return total;
  }

 private:
  using Names = std::tuple<std::string, std::string, std::string>;

  DeviceLimits limits_;
  std::map<Names, KernelTime> kernels_;
  std::set<std::string> left_out_;
};

// Whether a kernel of the device computes elements. Operations on no elements queue nothing.
bool has_elements(const graph::Graph& graph, const graph::Node& node) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](graph::ValueId v) {
    return graph::element_count(graph.value(v).dims) > 0;
  });
}

}  // namespace

LeastTime least_time(const exec::Program& program, int64_t passes, const DeviceLimits& limits) {
  Sum sum(limits);
  const graph::Graph& graph = program.graph();
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    if (program.is_kept_right(i)) continue;
    const bool once = node.phase == graph::Phase::kUpdate || node.phase == graph::Phase::kPack;
    const bool own = graph::has_kernel(node) && !node.on_fallback;
    const auto* work = own ? &program.kernel(i).work() : nullptr;
    if (work == nullptr || work->empty()) {
      if (has_elements(graph, node)) sum.leave_out(node);
      continue;
    }
    for (const plugins::host::KernelWork& kernel : *work) sum.add(node, kernel, once ? 1 : passes);
  }
  return sum.result();
}

}  // namespace runtime::analysis
