// In which order the ranks of a pipeline compute the micro-batches of a step, and what that costs.
#ifndef RUNTIME_PARALLEL_SCHEDULE_H_
#define RUNTIME_PARALLEL_SCHEDULE_H_

#include <string_view>
#include <vector>

namespace runtime::parallel {

struct ScheduleOptions;

// An order of forward and backward passes, as a row.
struct ScheduleKind {
  std::string_view name;  // of parallelism.pipeline_schedule
  bool chunks;            // each rank has several stages, `ranks` stages apart
  // The number of forwards before the first backward of a rank that has so many ranks behind it.
  int (*warm_up)(const ScheduleOptions& options, int behind);
};
const std::vector<ScheduleKind>& schedule_kinds();
// The row of this name. Throws InternalError if there is none.
const ScheduleKind* schedule_kind(std::string_view name);

// The pipeline whose forward and backward slots make_schedule() orders.
struct ScheduleOptions {
  const ScheduleKind* kind = schedule_kind("1f1b");
  int ranks = 1;
  int micro_batches = 1;
  int chunks = 1;        // stages on each rank; above 1 only with ScheduleKind::chunks
  bool backward = true;  // false: forward only, for an evaluation
};

// A slot of a schedule: one chunk's forward or backward of one micro-batch. Chunk c of rank r is
// stage c * ranks + r (Megatron-LM: a model chunk, or virtual pipeline stage).
struct Slot {
  bool backward = false;
  int chunk = 0, micro_batch = 0;
  bool operator==(const Slot&) const = default;
};

// The slots of every rank of a pipeline.
struct Schedule {
  int ranks = 1, chunks = 1, micro_batches = 1;
  std::vector<std::vector<Slot>> slots;  // by rank, in order; the micro-batches of a chunk ascend

  int stages() const { return ranks * chunks; }
};

// Throws ConfigurationError, which names the nearest valid numbers, if the options do not fit
// together.
Schedule make_schedule(const ScheduleOptions& options);

// The largest number of micro-batches whose forward is done and whose backward is not, so that the
// rank keeps their activations: of one chunk, or (-1) of all chunks together.
int peak_in_flight(const std::vector<Slot>& slots, int chunk = -1);

// Seconds of each stage for one micro-batch.
struct StageTimes {
  std::vector<double> forward, backward;
  // Seconds of a transfer from a stage to the next one, and of its gradient from a stage to the
  // previous one; empty: 0. Transfers run while the ranks compute.
  std::vector<double> send_forward, send_backward;
};

// The simulated times of a schedule.
struct Timeline {
  std::vector<std::vector<double>> end;  // seconds, by rank and slot
  double seconds = 0;                    // until the end of the last slot
  double bubble = 0;                     // fraction of the ranks' time in which they wait
};

// Simulates one step. Throws Error if a rank would wait for ever.
Timeline simulate(const Schedule& schedule, const StageTimes& times);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_SCHEDULE_H_
