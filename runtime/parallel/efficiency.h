// Answers "does adding ranks pay?": what a step of several ranks costs, estimated or measured.
#ifndef RUNTIME_PARALLEL_EFFICIENCY_H_
#define RUNTIME_PARALLEL_EFFICIENCY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/parallel/mesh.h"

namespace runtime::parallel {

// "data 2 x tensor 1 x pipeline 4"
std::string to_string(const Mesh& mesh);

// The connection between ranks: a message of n bytes takes latency + n / bandwidth (Hockney's
// alpha-beta model).
struct Link {
  double latency_s = 0;         // alpha
  double bytes_per_second = 1;  // 1 / beta, of one rank that sends and receives at the same time
  bool in_background = true;    // if false, messages progress only while a rank waits
};

// A guess of the order of magnitude, for ranks on one machine whose communication plugin says
// nothing of its link. `runtime bench comm` measures both numbers.
inline constexpr Link kUnknownLink{10e-6, 2e9, true};

// Bytes that each rank sends and receives for each byte of the larger of its two buffers. NVIDIA's
// nccl-tests use the same factor for the bus bandwidth (doc/PERFORMANCE.md there).
double bus_factor(int32_t kind, int ranks);

// Seconds of one collective on `bytes` (of the larger buffer of a rank) by the ring, tree and
// pairwise algorithms that Thakur, Rabenseifner and Gropp compare ("Optimization of Collective
// Communication Operations in MPICH", 2005). The time of the additions is not counted. 0 for one
// rank.
double collective_seconds(int32_t kind, uint64_t bytes, int ranks, const Link& link);

// The times of one step, in seconds.
struct StepTimes {
  int ranks = 1;
  double compute = 0;        // T_comp(B/R): a rank computes its samples
  double compute_alone = 0;  // T_comp(B): one such rank computes the whole global batch
  double sync = 0;           // T_sync: the collectives run alone
  double exposed = 0;        // exposed T_sync: a rank waits for collectives or late ranks
  ByAxis sync_by_axis = {}, exposed_by_axis = {};

  double step() const { return compute + exposed; }
  // The fraction of a step for which a rank waits for other stages of its pipeline.
  double bubble() const { return exposed_by_axis[kPipelineAxis] / step(); }
  double speed_up() const { return compute_alone / step(); }
  double efficiency() const { return speed_up() / ranks; }
  // For a fixed global batch: T_comp(B/R) + exposed T_sync < T_comp(B).
  bool pays() const { return step() < compute_alone; }
  // For a fixed batch per rank, where throughput grows with the ranks. It assumes that no
  // communication is hidden: (T_comp + T_sync) / R < T_comp.
  bool pays_per_rank() const { return (compute + sync) / ranks < compute; }
};

// The inequality with its values, for people: "fixed global batch: adding ranks pays (efficiency
// 0.83): ... = 1.2 ms < ... = 2.0 ms", or the inequality for a fixed batch per rank. Adding ranks
// "pays little" where each further rank brings less than half of what one rank does; where the
// fixed global batch loses much, the text ends with what it is lost to.
std::string decide(const StepTimes& times, bool fixed_global_batch);

// The step time of a run of several ranks beside the step time of a run of one rank.
struct ComparedRuns {
  int ranks = 1;
  double step_s = 0;   // seconds of a step of `ranks` ranks
  double alone_s = 0;  // seconds of a step of one rank
  // True: both runs have the same global batch. False: each rank has a batch as large as that of
  // the one rank.
  bool fixed_global_batch = true;
  double exposed_s = 0;  // of step_s: the exposed T_sync

  // Seconds that the ranks take for the samples that the one rank processes in a step.
  double step_of_same_work() const { return fixed_global_batch ? step_s : step_s / ranks; }
  double speed_up() const { return alone_s / step_of_same_work(); }
  // Whether the ranks process more samples a second than the one rank.
  bool pays() const { return speed_up() > 1; }
};

// The comparison with its values, for people: "fixed batch per rank: adding ranks does not pay
// (efficiency 0.42): a step of 2 ranks / 2 = 3.0 ms >= a step of one rank = 2.5 ms; ...", in the
// words of the function above.
std::string decide(const ComparedRuns& runs);

// What explain() reports about one run.
struct Explanation {
  StepTimes times;
  Mesh mesh;
  int64_t global_batch = 0;
  std::string alone;  // how compute_alone was found, e.g. "estimated"
  std::optional<StepTimes> predicted;
  bool shares_by_speed = false;  // the run has parallelism.share = "by_speed"
};

// Lines for people: the times, both inequalities with their values, whether adding ranks pays, and
// what to try next.
std::string explain(const Explanation& e);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_EFFICIENCY_H_
