// Formulas for collectives, the verdict on adding ranks, and advice in words.
#include "runtime/parallel/efficiency.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "runtime/graph/graph.h"

namespace runtime::parallel {

namespace {

// The fraction of a step's time above which waiting is worth advice.
constexpr double kMuchExposed = 0.1, kMuchBubble = 0.25;
// The share of one rank's speed that each further rank has to bring to be worth it.
constexpr double kWorthwhile = 0.5;

// The number of messages that follow each other.
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

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string ms(double seconds) { return fixed(seconds * 1e3, 3) + " ms"; }

// " (data 2 x tensor 1 x pipeline 2)"; "" if all ranks are data-parallel.
std::string shape(const Mesh& mesh) {
  return mesh.tensor * mesh.pipeline == 1 ? "" : " (" + to_string(mesh) + ")";
}

// One line for each axis, if there are several.
std::string axes(const Explanation& e) {
  std::string text;
  if (e.mesh.tensor * e.mesh.pipeline == 1) return text;
  for (int axis = 0; axis < kAxes; ++axis) {
    if (e.mesh.degree(axis) == 1) continue;
    text += kAxisNames[axis] + (": T_sync " + ms(e.times.sync_by_axis[axis])) + ", exposed " +
            ms(e.times.exposed_by_axis[axis]);
    if (e.predicted) text += ", predicted " + ms(e.predicted->exposed_by_axis[axis]);
    if (axis == kPipelineAxis) {
      text += "; bubble " + fixed(e.times.bubble(), 3);
      if (e.predicted) text += ", predicted " + fixed(e.predicted->bubble(), 3);
    }
    text += "\n";
  }
  return text;
}

std::string next_step(const Explanation& e) {
  const StepTimes& t = e.times;
  if (t.bubble() > kMuchBubble)
    return "ranks wait for other stages: more parallelism.microbatches, pipeline_schedule = "
           "\"interleaved\", fewer stages, or `stage` of the layers where one takes longer "
           "(runtime "
           "plan CONFIG --world-size " +
           std::to_string(t.ranks) + ")";
  // Computing time shrinks with the batch of a rank, the bytes of the gradients do not.
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
    return std::string(
               "most of the wait is for ranks that come late, not for communication: "
               "leave each rank cores of its own") +
           (e.shares_by_speed ? ", without other programs beside it"
                              : ", or set parallelism.share = \"by_speed\"");
  if (t.exposed > kMuchExposed * t.step())
    return fixed(100 * t.exposed / t.step(), 0) +
           "% of a step waits for communication: a larger batch, comm.overlap = true with a "
           "smaller comm.bucket_mb, or a faster comm.backend (runtime bench comm)";
  return "little waits for communication; runtime bench CONFIG --scaling 1," +
         std::to_string(t.ranks) + "," + std::to_string(2 * t.ranks);
}

// "adding ranks pays little (efficiency 0.52)".
std::string verdict(double speed_up, int ranks) {
  const bool little = speed_up - 1 < kWorthwhile * (ranks - 1);
  return std::string(speed_up <= 1 ? "adding ranks does not pay"
                     : little      ? "adding ranks pays little"
                                   : "adding ranks pays") +
         " (efficiency " + fixed(speed_up / ranks, 2) + ")";
}

std::string answer(bool fixed_global_batch, const std::string& verdict, bool pays,
                   const std::string& left, const std::string& right) {
  return std::string(fixed_global_batch ? "fixed global batch: " : "fixed batch per rank: ") +
         verdict + ": " + left + (pays ? " < " : " >= ") + right;
}

// What the time above `ideal`, which is that of one rank divided by the number of ranks, goes into;
// "" if it is short.
std::string lost(double step, double ideal, double exposed) {
  if (step - ideal <= kMuchExposed * step) return "";
  return "; ideal would be " + ms(ideal) + ": " + ms(exposed) + " more are exposed T_sync, " +
         ms(std::max(0.0, step - exposed - ideal)) + " slower computing of a rank among others";
}

}  // namespace

std::string to_string(const Mesh& mesh) {
  return "data " + std::to_string(mesh.data) + " x tensor " + std::to_string(mesh.tensor) +
         " x pipeline " + std::to_string(mesh.pipeline);
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

std::string decide(const StepTimes& t, bool fixed_global_batch) {
  if (fixed_global_batch)
    return answer(true, verdict(t.speed_up(), t.ranks), t.pays(),
                  "T_comp(B/R) + exposed T_sync = " + ms(t.step()),
                  "T_comp(B) = " + ms(t.compute_alone)) +
           lost(t.step(), t.compute_alone / t.ranks, t.exposed);
  return answer(false, verdict(t.ranks * t.compute / (t.compute + t.sync), t.ranks),
                t.pays_per_rank(), "(T_comp + T_sync) / R = " + ms((t.compute + t.sync) / t.ranks),
                "T_comp = " + ms(t.compute));
}

std::string decide(const ComparedRuns& r) {
  const std::string ranks = std::to_string(r.ranks);
  const double share = r.step_of_same_work() / r.step_s;
  return answer(r.fixed_global_batch, verdict(r.speed_up(), r.ranks), r.pays(),
                "a step of " + ranks + " ranks" + (r.fixed_global_batch ? "" : " / " + ranks) +
                    " = " + ms(r.step_of_same_work()),
                "a step of one rank = " + ms(r.alone_s)) +
         lost(r.step_of_same_work(), r.alone_s / r.ranks, r.exposed_s * share);
}

std::string explain(const Explanation& e) {
  const StepTimes& t = e.times;
  std::string text = std::to_string(t.ranks) + " ranks" + shape(e.mesh) + ", global batch " +
                     std::to_string(e.global_batch) + ": T_comp " + ms(t.compute) +
                     " + exposed T_sync " + ms(t.exposed) + " = " + ms(t.step()) + " a step";
  if (e.predicted) text += ", predicted " + ms(e.predicted->step());
  text += " (T_sync alone " + ms(t.sync) + ")\n" + axes(e);
  if (t.compute_alone <= 0) return text + "next: " + next_step(e);
  text += "efficiency " + fixed(t.efficiency(), 2);
  if (e.predicted) text += ", predicted " + fixed(e.predicted->efficiency(), 2);
  text += ", speed-up " + fixed(t.speed_up(), 2) + " over one such rank (T_comp(B) " + e.alone +
          ")\n" + decide(t, true) + "\n";
  // A fixed batch per rank has no meaning where several ranks hold one model together.
  if (e.mesh.tensor * e.mesh.pipeline == 1) text += decide(t, false) + "\n";
  return text + "next: " + next_step(e);
}

}  // namespace runtime::parallel
