// The spans of a program: every node once, in order, without gaps, by the clock of the host.
#include "runtime/exec/span_recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/exec/program.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::exec {
namespace {

using test::GraphRun;

// y = square_sum(relu(x) * x), which stays several nodes on every device.
graph::Graph example() {
  graph::Graph graph;
  graph::Build build(graph);
  const auto x = test::add_value(graph, "x", graph::ValueKind::kState, {64}, RT_FLOAT32);
  const auto y = build.multiply(build.activation(x, RT_ACTIVATION_RELU), x);
  test::add_output(graph, build.square_sum(y), "sum");
  return graph;
}

class SpanRecorderTest : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<plugins::host::Device> device_ = test::open_device(GetParam());
};

TEST_P(SpanRecorderTest, SpansOfARunFollowEachOther) {
  GraphRun run(example(), device_);
  plugins::host::Stream stream(device_);
  SpanRecorder spans(stream);
  spans.begin(1);
  const int64_t before = SpanRecorder::now();
  constexpr int kRuns = 3;
  for (int i = 0; i < kRuns; ++i) {
    spans.set_step(10 + i);
    run.program().run(stream, &spans);
  }
  const std::vector<Span> all = spans.take();
  const int64_t after = SpanRecorder::now();
  const size_t nodes = run.program().graph().nodes.size();
  ASSERT_GE(nodes, 2u);
  ASSERT_EQ(all.size(), kRuns * nodes);
  // The clocks of host and device are related with an error of half a round trip.
  constexpr int64_t kError = 50'000'000;
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].kind, SpanKind::kOperation);
    EXPECT_EQ(all[i].program, &run.program());
    EXPECT_EQ(static_cast<size_t>(all[i].node), i % nodes);
    EXPECT_EQ(all[i].step, 10 + static_cast<int64_t>(i / nodes));
    EXPECT_LE(all[i].begin_ns, all[i].end_ns);
    EXPECT_GE(all[i].begin_ns, before - kError);
    EXPECT_LE(all[i].end_ns, after + kError);
    if (i % nodes > 0) {
      EXPECT_EQ(all[i].begin_ns, all[i - 1].end_ns);
    }
  }
}

TEST_P(SpanRecorderTest, WhatWasRecordedBeforeBeginIsForgotten) {
  GraphRun run(example(), device_);
  plugins::host::Stream stream(device_);
  SpanRecorder spans(stream);
  run.program().run(stream, &spans);
  spans.begin(2);
  run.program().run(stream, &spans);
  EXPECT_EQ(spans.take().size(), run.program().graph().nodes.size());
  EXPECT_TRUE(spans.take().empty());
}

TEST(SpansOfReplays, AreThoseOfSingleOperations) {
  const auto device = test::open_device("simulated");
  Storage storage(device);
  Arena arena(device);
  const test::Compiled compiled =
      test::compile(example(), device, storage, arena, {{.tune = Tune::kOff}, nullptr, true});
  Program& program = *compiled.program;
  plugins::host::Stream stream(device);
  SpanRecorder spans(stream);
  program.run(stream);
  program.run(stream);
  const size_t replayed = program.recorded().operations;
  ASSERT_GT(replayed, 0u);
  spans.begin(1);
  program.run(stream, &spans);
  EXPECT_EQ(spans.take().size(), program.graph().nodes.size());
  program.run(stream);
  EXPECT_EQ(program.recorded().operations, replayed) << "the recordings are still there";
  stream.synchronize();
}

INSTANTIATE_TEST_SUITE_P(Devices, SpanRecorderTest, testing::Values("reference", "simulated"),
                         [](const auto& info) { return std::string(info.param); });

TEST(HostSpanTest, LastsAsLongAsItLives) {
  const auto device = test::open_device("reference");
  plugins::host::Stream stream(device);
  SpanRecorder spans(stream);
  spans.begin(1);
  { const HostSpan nowhere(nullptr, SpanKind::kData); }
  {
    const HostSpan data(&spans, SpanKind::kData);
    usleep(2000);
  }
  const std::vector<Span> all = spans.take();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].kind, SpanKind::kData);
  EXPECT_GE(all[0].end_ns - all[0].begin_ns, 2'000'000);
}

}  // namespace
}  // namespace runtime::exec
