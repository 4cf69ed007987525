// Marks streams by events, and relates their times to the clock of the host.
#include "runtime/exec/span_recorder.h"

#include <chrono>
#include <utility>

namespace runtime::exec {

namespace {

constexpr int kClockTries = 5;

}  // namespace

SpanRecorder::SpanRecorder(plugins::host::Stream& stream)
    : stream_(stream),
      inline_(stream.device()->is_inline()),
      base_(stream.device()->create_event()) {}

int64_t SpanRecorder::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void SpanRecorder::begin(int64_t times) {
  const size_t spans = spans_.size() * static_cast<size_t>(times);
  const size_t marks = used_ * static_cast<size_t>(times);
  spans_.clear();
  unread_.clear();
  used_ = 0;
  spans_.reserve(spans);
  unread_.reserve(inline_ ? 0 : spans);
  while (events_.size() < marks) events_.push_back(stream_.device()->create_event());
  if (!inline_) relate_clocks();
}

// The event completes between two readings of the host's clock; of several tries the closest pair
// counts.
void SpanRecorder::relate_clocks() {
  int64_t closest = INT64_MAX;
  for (int i = 0; i < kClockTries; ++i) {
    plugins::host::Event event = stream_.device()->create_event();
    stream_.synchronize();
    const int64_t before = now();
    event.record(stream_);
    event.synchronize();
    const int64_t after = now();
    if (after - before >= closest) continue;
    closest = after - before;
    base_ = std::move(event);
    base_ns_ = before + closest / 2;
  }
}

SpanRecorder::Mark SpanRecorder::mark(plugins::host::Stream& stream) {
  if (inline_) return now();
  if (used_ == events_.size()) events_.push_back(stream.device()->create_event());
  events_[used_].record(stream);
  return static_cast<Mark>(used_++);
}

void SpanRecorder::add(Span span, Mark begin, Mark end) {
  span.step = step_;
  span.begin_ns = begin;
  span.end_ns = end;
  if (!inline_) unread_.push_back(spans_.size());
  spans_.push_back(span);
}

void SpanRecorder::add_host(SpanKind kind, int64_t begin_ns, int64_t end_ns) {
  Span span;
  span.kind = kind;
  span.step = step_;
  span.begin_ns = begin_ns;
  span.end_ns = end_ns;
  spans_.push_back(span);
}

void SpanRecorder::add_collective(const CollectiveCall* call, int64_t begin_ns, int64_t end_ns) {
  add_host(SpanKind::kCollective, begin_ns, end_ns);
  spans_.back().call = call;
}

int64_t SpanRecorder::time_of(Mark mark) {
  plugins::host::Event& event = events_[static_cast<size_t>(mark)];
  event.synchronize();
  return base_ns_ + plugins::host::Event::elapsed(base_, event).count();
}

std::vector<Span> SpanRecorder::take() {
  for (const size_t i : unread_) {
    spans_[i].begin_ns = time_of(spans_[i].begin_ns);
    spans_[i].end_ns = time_of(spans_[i].end_ns);
  }
  unread_.clear();
  return std::exchange(spans_, {});
}

}  // namespace runtime::exec
