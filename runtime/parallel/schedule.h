// In which order the ranks of a pipeline compute the micro-batches of a step, and what that costs.
#ifndef RUNTIME_PARALLEL_SCHEDULE_H_
#define RUNTIME_PARALLEL_SCHEDULE_H_

#include <vector>

namespace runtime::parallel {

enum class ScheduleKind {
  // All forward, then all backward: Huang et al., "GPipe: efficient training of giant neural
  // networks using pipeline parallelism", 2019.
  kGpipe,
  // One forward, one backward, with a flush at the end of the step: Narayanan et al.,
  // "Memory-efficient pipeline-parallel DNN training", 2021. As fast, keeps fewer activations.
  kOneForwardOneBackward,
  // The same with several stages a rank, `ranks` apart: Narayanan et al., "Efficient large-scale
  // language model training on GPU clusters using Megatron-LM", 2021. Waits less, sends more.
  kInterleaved,
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kOneForwardOneBackward;
  int ranks = 1;
  int micro_batches = 1;
  int chunks = 1;        // stages of each rank; above 1 only where they are interleaved
  bool backward = true;  // false: evaluation
};

// One stage's forward or backward of one micro-batch. Chunk c of rank r is stage c * ranks + r.
struct Slot {
  bool backward = false;
  int chunk = 0, micro_batch = 0;
  bool operator==(const Slot&) const = default;
};

struct Schedule {
  int ranks = 1, chunks = 1, micro_batches = 1;
  std::vector<std::vector<Slot>> slots;  // by rank, in order; micro-batches of a chunk ascend

  int stages() const { return ranks * chunks; }
};

// Throws ConfigurationError naming the nearest valid numbers.
Schedule make_schedule(const ScheduleOptions& options);

// The most micro-batches whose forward is done and whose backward is not, and which a rank keeps
// activations of: those of one chunk, or (-1) of all chunks together.
int peak_in_flight(const std::vector<Slot>& slots, int chunk = -1);

// Seconds, by stage.
struct StageTimes {
  std::vector<double> forward, backward;
  // From a stage to the next one, and of gradients from it to the one before; empty: 0. A transfer
  // goes on while its ranks compute.
  std::vector<double> send_forward, send_backward;
};

struct Timeline {
  std::vector<std::vector<double>> end;  // by rank and slot
  double seconds = 0;                    // until the last slot's end
  double bubble = 0;                     // part of the ranks' time in which they wait
};

Timeline simulate(const Schedule& schedule, const StageTimes& times);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_SCHEDULE_H_
