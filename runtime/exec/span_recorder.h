// Records when the work of a rank ran: its operations, its collectives, and what the host did.
#ifndef RUNTIME_EXEC_SPAN_RECORDER_H_
#define RUNTIME_EXEC_SPAN_RECORDER_H_

#include <cstdint>
#include <vector>

#include "plugins/host/device.h"

namespace runtime::exec {

class Program;
struct CollectiveCall;

// The kinds of work. kStep to kBetween are work of the host; on an inline device kLaunch lies over
// the operations themselves.
enum class SpanKind {
  kStep,        // everything below, of one step
  kData,        // waits for a batch
  kPrepare,     // finds the programs of the step, and makes them when its form first occurs
  kUpload,      // copies a batch to the device, or queues that
  kLaunch,      // runs a program, or queues it
  kReport,      // takes results and reports them
  kExchange,    // asynchronous updates: copies gradients and parameters, and waits for the latter
  kBetween,     // from the end of a step to the beginning of the next one
  kTransfer,    // a batch on its way to the device, on a stream of its own
  kOperation,   // one node of a program, on the stream of the programs
  kCollective,  // from the start of a collective to its end, beside the operations
};

// A stretch of time, in nanoseconds of this machine's steady clock.
struct Span {
  SpanKind kind = SpanKind::kStep;
  const Program* program = nullptr;      // of an operation
  int32_t node = -1;                     // its index in the program's graph
  const CollectiveCall* call = nullptr;  // of a collective; owned by its program
  int64_t step = 0;
  int64_t begin_ns = 0, end_ns = 0;
};

// One object for each rank, used by the rank's thread. On an inline device a mark is the time of
// the host; otherwise it is an event on a stream, whose time is read when the spans are taken, so
// that recording waits for nothing. Equivalent to: the records of torch.profiler (Kineto), without
// what only a vendor's tracing library sees inside a recorded graph.
class SpanRecorder {
 public:
  // A point in the work of a stream: nanoseconds, or the index of an event.
  using Mark = int64_t;

  // `stream` is that of the programs; it must outlive this object.
  explicit SpanRecorder(plugins::host::Stream& stream);

  static int64_t now();
  // Forgets all spans. Waits for the stream, to relate its events to the clock of the host, and
  // makes room for `times` times as much as has been recorded since the last call.
  void begin(int64_t times);
  // Spans that are added from now on belong to this step.
  void set_step(int64_t step) { step_ = step; }

  Mark mark(plugins::host::Stream& stream);
  // Adds a span between two marks, or of the host, in nanoseconds; its step is set here.
  void add(Span span, Mark begin, Mark end);
  void add_host(SpanKind kind, int64_t begin_ns, int64_t end_ns);
  void add_collective(const CollectiveCall* call, int64_t begin_ns, int64_t end_ns);
  // The spans since begin(), in the order in which they were added. Waits for the marks.
  std::vector<Span> take();

 private:
  void relate_clocks();
  int64_t time_of(Mark mark);

  plugins::host::Stream& stream_;
  const bool inline_;
  std::vector<Span> spans_;
  std::vector<size_t> unread_;  // spans whose times are indices of events
  std::vector<plugins::host::Event> events_;
  size_t used_ = 0;
  plugins::host::Event base_;
  int64_t base_ns_ = 0;
  int64_t step_ = 0;
};

// Adds a span of the host for the time for which it lives; does nothing without a recorder.
class HostSpan {
 public:
  HostSpan(SpanRecorder* spans, SpanKind kind)
      : spans_(spans), kind_(kind), begin_ns_(spans == nullptr ? 0 : SpanRecorder::now()) {}
  ~HostSpan() {
    if (spans_ != nullptr) spans_->add_host(kind_, begin_ns_, SpanRecorder::now());
  }
  HostSpan(const HostSpan&) = delete;
  HostSpan& operator=(const HostSpan&) = delete;

 private:
  SpanRecorder* const spans_;
  const SpanKind kind_;
  const int64_t begin_ns_;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_SPAN_RECORDER_H_
