// Records steps of a run: which ones, and what they did.
#ifndef RUNTIME_TRAIN_PROFILER_H_
#define RUNTIME_TRAIN_PROFILER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/exec/clock_offset.h"
#include "runtime/exec/span_recorder.h"
#include "runtime/train/device_meter.h"
#include "runtime/train/rank/step_programs.h"

namespace runtime::train {

// What is done with a step of a run.
enum class StepUse { kIgnored, kWarmUp, kRecorded };

// Returns what is done with the step that follows `done` steps of this run. Equivalent to:
// torch.profiler.schedule, whose `repeat` is at least 1 here.
StepUse use_of_step(const config::Profiling& profiling, int64_t done);

// The recorded steps of one cycle on one rank.
struct RecordedCycle {
  int64_t first_step = 0, steps = 0;  // counted from 0
  exec::ClockOffset clock;  // measured when the cycle ended, or at the end of asynchronous training
  // From the first recorded step to the end of the last: the time, and what all threads of the
  // process computed. Ranks that are threads share a process.
  double wall_seconds = 0, cpu_seconds = 0;
};

// All that was recorded on one rank. The spans name programs, which must outlive it.
struct Recording {
  std::vector<RecordedCycle> cycles;
  std::vector<exec::Span> spans;
  std::optional<double> device_utilisation;  // 0..1; empty: the device does not measure it

  int64_t steps() const;
};

// Decides which steps of a run are recorded, and keeps what they did. Used by the rank's thread;
// every rank makes the same calls. In asynchronous training the steps of a rank are its work items,
// of which every rank has as many as it can do.
class Profiler {
 public:
  // The run goes on after `steps_done` steps. `record` is Trainer::record. The programs and what
  // `record` uses must outlive this object.
  Profiler(StepPrograms& programs, int64_t steps_done,
           std::function<void(exec::SpanRecorder*)> record);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // The loop calls this function before each step, whose time begins when it returns. Returns the
  // recorder that the step writes its spans to, or nullptr if the step is not recorded. The time
  // since the end of the recorded step before is added to that step as a span kBetween.
  // The function waits for the device before the first step of a warm-up, before the first recorded
  // step and after the last one of a cycle, and there, in synchronous training, for all ranks too.
  // If no other step follows the last one of a cycle, take() ends the cycle.
  exec::SpanRecorder* begin_step();
  // Whether begin_step() ends a cycle now, which is work of no step.
  bool ends_cycle() const { return in_cycle_ && cycle_.steps == profiling_.active; }
  // Called after a step.
  void end_step();
  // Called at the end of the run, which may lie within a cycle.
  Recording take();

 private:
  void end_time_between();
  void begin_cycle();
  void end_cycle();

  const config::Profiling& profiling_;
  StepPrograms& programs_;
  const std::function<void(exec::SpanRecorder*)> record_;
  exec::SpanRecorder spans_;
  DeviceMeter device_;
  const bool asynchronous_;
  const int64_t first_;  // steps done before this run
  int64_t done_ = 0;     // steps of this run
  StepUse use_ = StepUse::kIgnored;
  bool in_cycle_ = false;
  RecordedCycle cycle_;
  double begin_wall_ = 0, begin_cpu_ = 0;  // seconds, when the cycle began
  int64_t ended_ns_ = 0;                   // when the last recorded step ended
  Recording recording_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_PROFILER_H_
