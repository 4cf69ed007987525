// Begins and ends cycles of recorded steps, and takes their spans, clocks and load.
#include "runtime/train/profiler.h"

#include <sys/resource.h>

#include <utility>

#include "runtime/step/ranks.h"

namespace runtime::train {

namespace {

double wall_seconds() { return static_cast<double>(exec::SpanRecorder::now()) * 1e-9; }

// The processor time of all threads of this process.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

StepUse use_of_step(const config::Profiling& profiling, int64_t done) {
  const int64_t before = profiling.wait + profiling.warmup, length = before + profiling.active;
  if (done / length >= profiling.repeat || done % length < profiling.wait) return StepUse::kIgnored;
  return done % length < before ? StepUse::kWarmUp : StepUse::kRecorded;
}

int64_t Recording::steps() const {
  int64_t sum = 0;
  for (const RecordedCycle& cycle : cycles) sum += cycle.steps;
  return sum;
}

Profiler::Profiler(StepPrograms& programs, int64_t steps_done,
                   std::function<void(exec::SpanRecorder*)> record)
    : profiling_(programs.setup().config.profiling),
      programs_(programs),
      record_(std::move(record)),
      spans_(programs.stream()),
      device_(programs.setup().device),
      asynchronous_(step::is_asynchronous(programs.setup().config, programs.setup().world_size())),
      first_(steps_done) {}

Profiler::~Profiler() { record_(nullptr); }

// What lies behind a recorded step belongs to it, so that the times of a rank add up to those of
// the others: whoever is done early with a step waits here or in the next one.
void Profiler::end_time_between() {
  if (!in_cycle_) return;
  const int64_t now = exec::SpanRecorder::now();
  spans_.add_host(exec::SpanKind::kBetween, ended_ns_, now);
  ended_ns_ = now;
  if (ends_cycle()) end_cycle();
}

exec::SpanRecorder* Profiler::begin_step() {
  end_time_between();
  const StepUse before = std::exchange(use_, use_of_step(profiling_, done_));
  if (use_ == StepUse::kIgnored) return nullptr;
  if (before == StepUse::kIgnored) {
    spans_.begin(1);
    record_(&spans_);
  }
  if (use_ == StepUse::kRecorded && !in_cycle_) begin_cycle();
  spans_.set_step(first_ + done_);
  return &spans_;
}

void Profiler::begin_cycle() {
  in_cycle_ = true;
  if (profiling_.warmup > 0)
    spans_.begin((profiling_.active + profiling_.warmup - 1) / profiling_.warmup);
  cycle_ = {};
  cycle_.first_step = first_ + done_;
  ended_ns_ = exec::SpanRecorder::now();
  begin_wall_ = wall_seconds();
  begin_cpu_ = cpu_seconds();
}

void Profiler::end_step() {
  ++done_;
  if (!in_cycle_) return;
  ++cycle_.steps;
  cycle_.wall_seconds = wall_seconds() - begin_wall_;
  cycle_.cpu_seconds = cpu_seconds() - begin_cpu_;
  ended_ns_ = exec::SpanRecorder::now();
}

void Profiler::end_cycle() {
  in_cycle_ = false;
  use_ = StepUse::kIgnored;
  record_(nullptr);
  const std::vector<exec::Span> spans = spans_.take();
  if (!asynchronous_) cycle_.clock = exec::measure_clock_offset(programs_.setup().collectives());
  recording_.spans.insert(recording_.spans.end(), spans.begin(), spans.end());
  recording_.cycles.push_back(cycle_);
  if (const std::optional<int> percent = device_.read().utilisation)
    recording_.device_utilisation = *percent / 100.0;
}

Recording Profiler::take() {
  if (in_cycle_ && cycle_.steps > 0) end_cycle();
  if (asynchronous_) {  // only here do all ranks meet
    const exec::ClockOffset clock = exec::measure_clock_offset(programs_.setup().collectives());
    for (RecordedCycle& cycle : recording_.cycles) cycle.clock = clock;
  }
  return std::move(recording_);
}

}  // namespace runtime::train
