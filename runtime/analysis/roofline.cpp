// Times products and additions of growing sizes on a device.
#include "runtime/analysis/roofline.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>

#include "runtime/error.h"
#include "runtime/exec/device_target.h"
#include "runtime/exec/program.h"
#include "runtime/graph/build.h"
#include "runtime/graph/fuse.h"
#include "runtime/graph/lower.h"

namespace runtime::analysis {

namespace {

using graph::Dims;
using graph::ValueId;
using graph::ValueKind;
using plugins::host::Device;

// A problem is enlarged until it takes this long, so that what a launch costs does not count.
constexpr double kLongEnough = 0.002;
constexpr int kRounds = 3;
constexpr double kRoundSeconds = 1e-3, kLeastRuns = 3, kMostRuns = 100;
// Elements of additions: the first lies in a cache, and one that no cache holds is always measured.
constexpr int64_t kFirstElements = 64 << 10, kManyElements = 16 << 20, kMostElements = 64 << 20;
// The part of the free memory that an addition may take, because other ranks may do the same.
constexpr uint64_t kPartOfMemory = 16;
// Rows of products.
constexpr int64_t kLeastRows = 256, kMostRows = 4096;

// The seconds of one run of a program, whose first run is not counted: the fastest round.
double seconds_of(exec::Program& program, plugins::host::Stream& stream) {
  const auto round = [&](int runs) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < runs; ++i) program.run(stream);
    stream.synchronize();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    return elapsed.count() / runs;
  };
  round(1);
  double best = round(1);
  const int runs = static_cast<int>(std::clamp(kRoundSeconds / best, kLeastRuns, kMostRuns));
  for (int i = 0; i < kRounds; ++i) best = std::min(best, round(runs));
  return best;
}

// The same of an operation on two operands of this shape.
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
  exec::Program program(std::move(graph), device, storage, arena, options);
  plugins::host::Stream stream(device);  // destroyed first, which waits for its work
  return seconds_of(program, stream);
}

std::vector<Bandwidth> bandwidths(rt_dtype dtype, const std::shared_ptr<Device>& device) {
  const uint64_t most_bytes = device->memory_info().free_bytes / kPartOfMemory;
  std::vector<Bandwidth> list;
  double seconds = 0;
  for (int64_t n = kFirstElements;
       n <= kManyElements || (n <= kMostElements && seconds < kLongEnough); n *= 4) {
    const uint64_t bytes = 3 * static_cast<uint64_t>(n) * graph::dtype_bytes(dtype);
    if (!list.empty() && bytes > most_bytes) break;
    seconds = seconds_of(RT_OP_ADD, {n}, dtype, device);
    list.push_back({static_cast<double>(bytes), static_cast<double>(bytes) / seconds});
  }
  // Small operations can be as fast as larger ones, if it were not for their launch.
  for (size_t i = list.size() - 1; i > 0; --i)
    list[i - 1].bytes_per_second = std::max(list[i - 1].bytes_per_second, list[i].bytes_per_second);
  return list;
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

double Roofline::bandwidth(double bytes) const {
  const auto above = std::find_if(bandwidths.begin(), bandwidths.end(),
                                  [&](const Bandwidth& b) { return bytes <= b.bytes; });
  if (above == bandwidths.begin()) return above->bytes_per_second;
  if (above == bandwidths.end()) return bandwidths.back().bytes_per_second;
  const Bandwidth& below = *std::prev(above);
  const double part = std::log(bytes / below.bytes) / std::log(above->bytes / below.bytes);
  return (1 - part) * below.bytes_per_second + part * above->bytes_per_second;
}

double Roofline::least_seconds(double flops, double bytes) const {
  return std::max(bytes / bandwidth(bytes), flops / flops_per_second);
}

std::optional<Roofline> measure_roofline(const config::Profiling& profiling,
                                         const std::shared_ptr<Device>& device, rt_dtype dtype) {
  Roofline limits{{{0, profiling.memory_gbps * 1e9}}, profiling.gflops * 1e9};
  try {
    if (profiling.memory_gbps == 0) limits.bandwidths = bandwidths(dtype, device);
    if (profiling.gflops == 0) limits.flops_per_second = arithmetic(dtype, device);
  } catch (const plugins::host::Error&) {
    return std::nullopt;  // for example, out of memory
  } catch (const DeviceError&) {
    return std::nullopt;  // no kernel for the type
  }
  return limits;
}

}  // namespace runtime::analysis
