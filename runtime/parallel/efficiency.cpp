#include "runtime/parallel/efficiency.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace runtime::parallel {

using graph::Graph;
using graph::Node;
using graph::Phase;

namespace {

// A step that waits longer than this part of its time can gain from other settings.
constexpr double kMuchExposed = 0.1;

// Messages that follow each other.
double rounds(int32_t kind, int ranks) {
  switch (kind) {
    case RT_ALL_REDUCE:
      return 2.0 * (ranks - 1);
    case RT_REDUCE_SCATTER:
    case RT_ALL_GATHER:
    case RT_ALL_TO_ALL:
      return ranks - 1;
    case RT_SEND:
    case RT_RECEIVE:
      return 1;
    default:
      return std::ceil(std::log2(ranks));
  }
}

uint64_t bytes_of(const Graph& graph, const Node& node) {
  const auto bytes = [&](const std::vector<graph::ValueId>& values) {
    return values.empty() ? 0 : graph::canonical_bytes(graph.value(values[0]));
  };
  return std::max(bytes(node.inputs), bytes(node.outputs));
}

struct Compute {
  double pass = 0;  // forward and backward
  double update = 0;
};

Compute compute_of(const Graph& graph) {
  Compute c;
  for (const Node& node : graph.nodes) {
    if (node.collective) continue;
    (node.phase == Phase::kUpdate ? c.update : c.pass) += std::max(0.0, node.estimated_ns) * 1e-9;
  }
  return c;
}

// Plays a pass: two clocks, the rank's and each communicator's.
class Timeline {
 public:
  Timeline(const Graph& graph, const PredictOptions& options) : graph_(graph), options_(options) {}

  Prediction run() {
    for (const Node& node : graph_.nodes) {
      if (!node.collective) {
        now_ += std::max(0.0, node.estimated_ns) * 1e-9;
      } else if (!node.collective->wait) {
        start(node);
      } else {
        const double done = done_.at(node.collective->token);
        result_.times.exposed += std::max(0.0, done - now_);
        now_ = std::max(now_, done);
      }
    }
    if (!options_.link.in_background) result_.times.exposed = result_.times.sync;
    return std::move(result_);
  }

 private:
  void start(const Node& node) {
    const int32_t kind = node.collective->kind;
    const uint64_t bytes = bytes_of(graph_, node);
    const double seconds = collective_seconds(kind, bytes, options_.ranks, options_.link);
    result_.collectives.push_back({node.op + ", " + node.layer, bytes,
                                   static_cast<double>(bytes) * bus_factor(kind, options_.ranks),
                                   seconds});
    result_.times.sync += seconds;
    double& free = free_[node.collective->communicator];
    free = std::max(free, now_) + seconds;
    done_[node.collective->token] = free;
  }

  const Graph& graph_;
  const PredictOptions& options_;
  double now_ = 0;
  std::map<int, double> free_;      // when a communicator has nothing more to do
  std::map<int32_t, double> done_;  // by token
  Prediction result_;
};

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string ms(double seconds) { return fixed(seconds * 1e3, 3) + " ms"; }

std::string next_step(const Explanation& e) {
  const StepTimes& t = e.times;
  // What is computed shrinks with the batch, what is sent does not.
  const double gain = t.compute_alone - t.compute;
  if (!t.pays() && gain <= 0)
    return "one rank is as fast without the others: use fewer ranks, or a larger batch that keeps "
           "them busy";
  if (!t.pays())
    return "a global batch above " +
           fixed(std::ceil(static_cast<double>(e.global_batch) * t.exposed / gain), 0) +
           " would pay, if communication stays as exposed; or use fewer ranks, or a comm.backend "
           "with less latency (runtime bench comm)";
  if (t.exposed > kMuchExposed * t.step() && t.exposed > 2 * t.sync)
    return "most of the wait is for ranks that come late, not for communication: leave each rank "
           "cores of its own, or set parallelism.share = \"by_speed\"";
  if (t.exposed > kMuchExposed * t.step())
    return fixed(100 * t.exposed / t.step(), 0) +
           "% of a step waits for communication: a larger batch, comm.overlap = true with a "
           "smaller comm.bucket_mb, or a faster comm.backend (runtime bench comm)";
  return "little waits for communication; runtime bench CONFIG --scaling 1," +
         std::to_string(t.ranks) + "," + std::to_string(2 * t.ranks);
}

}  // namespace

Link default_link(const std::string& plugin) {
  if (plugin == "local") return {5e-6, 8e9, false};
  if (plugin == "gloo") return {50e-6, 1e9, true};
  return {10e-6, 2e9, true};
}

double bus_factor(int32_t kind, int ranks) {
  const double others = (ranks - 1.0) / ranks;
  switch (kind) {
    case RT_ALL_REDUCE:
      return 2 * others;
    case RT_REDUCE_SCATTER:
    case RT_ALL_GATHER:
    case RT_ALL_TO_ALL:
      return others;
    default:
      return 1;
  }
}

double collective_seconds(int32_t kind, uint64_t bytes, int ranks, const Link& link) {
  if (ranks < 2) return 0;
  return rounds(kind, ranks) * link.latency_s +
         static_cast<double>(bytes) * bus_factor(kind, ranks) / link.bytes_per_second;
}

Prediction predict(const Graph& graph, const PredictOptions& options) {
  Prediction result = Timeline(graph, options).run();
  const Compute c = compute_of(graph);
  StepTimes& t = result.times;
  t.ranks = options.ranks;
  t.compute = static_cast<double>(options.passes) * c.pass + c.update;
  t.compute_alone = t.compute * alone_ratio(graph, options);
  return result;
}

double alone_ratio(const Graph& graph, const PredictOptions& options) {
  const Compute c = compute_of(graph);
  const double passes = static_cast<double>(options.passes) * c.pass;
  if (passes + c.update <= 0) return 1 / options.share;
  const double update = c.update * (options.sharded_update ? options.ranks : 1);
  return (passes / options.share + update) / (passes + c.update);
}

std::string decide(const StepTimes& t, bool fixed_global_batch) {
  const bool pays = fixed_global_batch ? t.pays() : t.pays_per_rank();
  const std::string answer = pays ? ": adding ranks pays: " : ": adding ranks does not pay: ";
  const std::string sign = pays ? " < " : " >= ";
  if (fixed_global_batch)
    return "fixed global batch" + answer + "T_comp(B/R) + exposed T_sync = " + ms(t.step()) + sign +
           "T_comp(B) = " + ms(t.compute_alone);
  return "fixed batch per rank" + answer +
         "(T_comp + T_sync) / R = " + ms((t.compute + t.sync) / t.ranks) + sign +
         "T_comp = " + ms(t.compute);
}

std::string explain(const Explanation& e) {
  const StepTimes& t = e.times;
  std::string text =
      std::to_string(t.ranks) + " ranks, global batch " + std::to_string(e.global_batch) +
      ": T_comp " + ms(t.compute) + " + exposed T_sync " + ms(t.exposed) + " = " + ms(t.step()) +
      " a step (T_sync alone " + ms(t.sync) + ")\nefficiency " + fixed(t.efficiency(), 2);
  if (e.predicted) text += ", predicted " + fixed(*e.predicted, 2);
  return text + ", speed-up " + fixed(t.speed_up(), 2) + " over one such rank (T_comp(B) " +
         e.alone + ")\n" + decide(t, true) + "\n" + decide(t, false) + "\nnext: " + next_step(e);
}

}  // namespace runtime::parallel
