#include "runtime/analysis/device_limits.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "runtime/error.h"
#include "runtime/graph/build.h"
#include "runtime/graph/fuse.h"
#include "runtime/graph/lower.h"

namespace runtime::analysis {

namespace {

using graph::Dims;
using graph::ValueId;
using graph::ValueKind;
using plugins::host::Device;

// A problem is doubled until it takes this long, so that what a launch costs does not count.
constexpr double kLongEnough = 0.01;
constexpr int kRounds = 3, kRunsOfRound = 3;
// Elements of the smallest and the largest addition, far above any cache, and rows of products.
constexpr int64_t kLeastElements = 16 << 20, kMostElements = 64 << 20;
constexpr int64_t kLeastRows = 256, kMostRows = 4096;

// The seconds of one run of an operation on two operands of this shape: the fastest round.
double seconds_of(const std::string& op, const Dims& dims, rt_dtype dtype,
                  const std::shared_ptr<Device>& device) {
  graph::Graph graph;
  // Persistent values, because they are zero when they are made: arbitrary numbers may be slow.
  const ValueId a = graph.add_value("a", ValueKind::kState, dims, dtype);
  const ValueId b = graph.add_value("b", ValueKind::kState, dims, dtype);
  const ValueId c = graph.add_value("c", ValueKind::kOutput, dims, dtype);
  graph::Build build(graph);
  build.layer = "limit";
  build.node_into(op, {a, b}, {c});
  const exec::CompileOptions options{{.tune = exec::Tune::kOff}};
  exec::DeviceTarget target(device, options.target);
  graph::fit_to_device(graph, target);
  graph::lower_rest(graph, target);
  exec::Storage storage(device);
  exec::Arena arena(device);
  plugins::host::Stream stream(device);
  exec::Program program(std::move(graph), device, storage, arena, options);
  program.run(stream);
  stream.synchronize();
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kRunsOfRound; ++i) program.run(stream);
    stream.synchronize();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, elapsed.count() / kRunsOfRound);
  }
  return best;
}

double bandwidth(rt_dtype dtype, const std::shared_ptr<Device>& device) {
  double rate = 0, seconds = 0;
  for (int64_t n = kLeastElements; n <= kMostElements && seconds < kLongEnough; n *= 2) {
    seconds = seconds_of(RT_OP_ADD, {n}, dtype, device);
    rate = std::max(rate, 3.0 * static_cast<double>(n * graph::dtype_bytes(dtype)) / seconds);
  }
  return rate;
}

double arithmetic(rt_dtype dtype, const std::shared_ptr<Device>& device) {
  double rate = 0, seconds = 0;
  for (int64_t n = kLeastRows; n <= kMostRows && seconds < kLongEnough; n *= 2) {
    seconds = seconds_of(RT_OP_MATMUL, {n, n}, dtype, device);
    rate = std::max(rate, 2.0 * static_cast<double>(n * n * n) / seconds);
  }
  return rate;
}

}  // namespace

std::optional<DeviceLimits> device_limits(const config::Profiling& profiling,
                                          const std::shared_ptr<Device>& device, rt_dtype dtype) {
  DeviceLimits limits{profiling.memory_gbps * 1e9, profiling.gflops * 1e9, 0};
  try {
    if (limits.bytes_per_second == 0) limits.bytes_per_second = bandwidth(dtype, device);
    if (limits.flops_per_second == 0) limits.flops_per_second = arithmetic(dtype, device);
  } catch (const plugins::host::Error&) {
    return std::nullopt;  // for example, out of memory
  } catch (const DeviceError&) {
    return std::nullopt;  // no kernel for the type
  }
  return limits;
}

}  // namespace runtime::analysis
