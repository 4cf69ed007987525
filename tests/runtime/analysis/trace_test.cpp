// The trace of one rank: tracks, nesting, and what the spans of a step add up to.
#include "runtime/analysis/trace.h"

#include <gmock/gmock.h>

#include <set>

#include "runtime/parallel/mesh.h"
#include "tests/runtime/support/trace.h"
#include "tests/runtime/train/profiled_steps.h"

namespace runtime::analysis {
namespace {

using nlohmann::json;
using test::TraceSpan;
using train::Job;
using train::Recording;

json trace_of(const Job& job, const Recording& recording, int rank) {
  return json::parse(
      trace_file({trace_events(recording, *job.programs, rank, first_ns(recording))}));
}

class TraceTest : public testing::TestWithParam<const char*> {
 protected:
  TraceTest()
      : job_(train::kLeNet, GetParam(), train::profiling_settings("8")),
        recording_(profile_steps(job_, 4)) {}
  Job job_;
  Recording recording_;
};

TEST_P(TraceTest, LayersLieInPhasesAndOperationsInLayers) {
  const auto tracks = test::read_trace(trace_of(job_, recording_, 0));
  const int stream = job_.programs->setup().device->is_inline() ? 1 : 2;
  int operations = 0;
  double first = INFINITY;
  std::set<std::string> phases;
  for (const auto& [track, spans] : tracks) {
    for (const TraceSpan& span : spans) first = std::min(first, span.begin);
  }
  for (const TraceSpan& span : tracks.at({0, stream})) {
    if (span.category == "step") {
      EXPECT_EQ(span.depth, 0);
    }
    if (span.category == "phase") {
      EXPECT_EQ(span.depth, 1) << span.name;
      phases.insert(span.name);
    }
    if (span.category == "layer") {
      EXPECT_EQ(span.depth, 2) << span.name;
    }
    if (span.category == "operation") {
      EXPECT_EQ(span.depth, 3) << span.name;
      ++operations;
    }
  }
  EXPECT_EQ(first, 0) << "times begin with the first event";
  EXPECT_THAT(phases, testing::IsSupersetOf({"forward", "backward", "update"}));
  const auto recorded =
      std::count_if(recording_.spans.begin(), recording_.spans.end(),
                    [](const exec::Span& span) { return span.kind == exec::SpanKind::kOperation; });
  EXPECT_EQ(operations, recorded);
}

TEST_P(TraceTest, ASpanIsAsLongAsWhatLiesInIt) {
  for (const auto& [track, spans] : test::read_trace(trace_of(job_, recording_, 3))) {
    EXPECT_EQ(track.first, 3) << "the rank";
    for (const TraceSpan& span : spans) {
      if (span.category == "phase" || span.category == "layer") {
        EXPECT_NEAR(span.inside, span.end - span.begin, 0.05) << span.name;
      }
    }
  }
}

TEST_P(TraceTest, TheClockOfTheRankIsCorrected) {
  constexpr int64_t kAhead = 1'000'000'000;
  const int64_t origin = first_ns(recording_);
  Recording other = recording_;
  for (exec::Span& span : other.spans) {
    span.begin_ns += kAhead;
    span.end_ns += kAhead;
  }
  for (train::RecordedCycle& cycle : other.cycles) cycle.clock.offset_ns = kAhead;
  EXPECT_EQ(first_ns(other), origin);
  EXPECT_EQ(trace_events(other, *job_.programs, 0, origin),
            trace_events(recording_, *job_.programs, 0, origin));
}

// The second collective ends before the first one is seen to have ended.
TEST_P(TraceTest, CollectivesOfACommunicatorFollowEachOther) {
  exec::CollectiveCall sum, sent, received;
  sum.name = "bucket 0";
  sum.collective.kind = RT_ALL_REDUCE;
  sent.communicator = received.communicator = 3;
  sent.collective.kind = RT_SEND;
  received.collective.kind = RT_RECEIVE;
  sent.collective.peer = received.collective.peer = 1;
  Recording recording;
  recording.cycles.resize(1);
  recording.cycles[0].steps = 1;
  const auto add = [&](const exec::CollectiveCall& call, int64_t begin, int64_t end) {
    exec::Span span;
    span.kind = exec::SpanKind::kCollective;
    span.call = &call;
    span.begin_ns = begin;
    span.end_ns = end;
    recording.spans.push_back(span);
  };
  add(sum, 0, 200'000);
  add(sum, 10'000, 100'000);
  add(sum, 50'000, 250'000);
  add(sent, 0, 120'000);
  add(received, 20'000, 90'000);
  const auto tracks = test::read_trace(trace_of(job_, recording, 0));
  ASSERT_EQ(tracks.size(), 3u) << "one of the sums, one for each direction of the pipeline";
  const auto& sums = tracks.at({0, 4});
  ASSERT_EQ(sums.size(), 3u);
  EXPECT_EQ(sums.front().begin, 0);
  EXPECT_EQ(sums.front().end, 200);
  EXPECT_EQ(sums.back().begin, 200) << "it has waited for the first one";
  EXPECT_EQ(sums.back().end, 250);
}

TEST_P(TraceTest, EachCommunicatorHasATrackWithItsName) {
  std::vector<exec::CollectiveCall> calls(parallel::kCommunicators);
  Recording recording;
  recording.cycles.resize(1);
  recording.cycles[0].steps = 1;
  for (int c = 0; c < parallel::kCommunicators; ++c) {
    calls[c].communicator = c;
    calls[c].collective.kind = RT_ALL_REDUCE;
    exec::Span span;
    span.kind = exec::SpanKind::kCollective;
    span.call = &calls[c];
    span.end_ns = 1000;
    recording.spans.push_back(span);
  }
  std::set<std::string> names;
  const json trace = trace_of(job_, recording, 0);
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name") names.insert(event.at("args").at("name"));
  }
  for (const char* name : parallel::kCommunicatorNames)
    EXPECT_TRUE(names.contains(std::string("network: ") + name)) << name;
}

INSTANTIATE_TEST_SUITE_P(Devices, TraceTest, testing::Values("reference", "simulated"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace runtime::analysis
