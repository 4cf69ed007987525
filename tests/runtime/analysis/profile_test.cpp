// The numbers of a profile, compared with the spans, the graph and the memory plan.
#include "runtime/analysis/profile.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "tests/runtime/train/profiled_steps.h"

namespace runtime::analysis {
namespace {

using exec::Span;
using exec::SpanKind;
using train::Job;
using train::Recording;

const Roofline kRoofline{{{0, 1e9}}, 1e10};

class ProfileTest : public testing::TestWithParam<const char*> {};

TEST_P(ProfileTest, OperationsAddUpToTheirSpans) {
  Job job(train::kLeNet, GetParam(), train::profiling_settings());
  const Recording recording = profile_steps(job, 4);
  const RankProfile p = make_profile(recording, *job.programs, 0, std::nullopt);
  EXPECT_EQ(p.first_step, 2);
  EXPECT_EQ(p.last_step, 4);
  EXPECT_EQ(p.steps, 3);
  double spans_ns = 0, ns = 0, flops = 0, calls = 0, phases = 0;
  size_t spans = 0;
  for (const Span& span : recording.spans) {
    if (span.kind != SpanKind::kOperation) continue;
    ++spans;
    spans_ns += static_cast<double>(span.end_ns - span.begin_ns);
  }
  for (const OperationProfile& o : p.operations) {
    ns += o.ns;
    flops += o.flops;
    calls += o.calls;
    EXPECT_FALSE(o.roofline_share.has_value()) << "no limits";
  }
  for (const auto& [name, phase_ns] : p.phases) phases += phase_ns;
  EXPECT_NEAR(ns, spans_ns / 3, 1e-6 * ns);
  EXPECT_NEAR(phases, ns, 1e-6 * ns);
  EXPECT_NEAR(calls, static_cast<double>(spans) / 3, 1e-6);
  const graph::Graph& graph =
      job.programs->compiled(train::full_step(*job.programs).back()).graph();
  EXPECT_NEAR(flops, graph::step_flops(graph, 1), 1e-6 * flops);
  EXPECT_LE(ns, p.step_ns);
  EXPECT_EQ(p.communication.bytes, 0);
}

// Spans of the host: a step of 10 ns, 5 ns behind it, a step of 20 ns that the cycle ends with.
TEST(StepTime, IsFromTheBeginningOfAStepToThatOfTheNext) {
  Job job(train::kTiny, "reference", train::profiling_settings());
  Recording recording = profile_steps(job, 4);
  recording.spans.clear();
  recording.cycles[0].steps = 2;
  for (const auto& [kind, begin, end] : {std::tuple{SpanKind::kStep, 0, 10},
                                         {SpanKind::kBetween, 10, 15},
                                         {SpanKind::kStep, 15, 35}})
    recording.spans.push_back({.kind = kind, .begin_ns = begin, .end_ns = end});
  const RankProfile p = make_profile(recording, *job.programs, 0, std::nullopt);
  EXPECT_DOUBLE_EQ(p.step_ns, 17.5);
  EXPECT_DOUBLE_EQ(p.between_ns, 2.5);
}

TEST_P(ProfileTest, MicroStepsCountAsOften) {
  Job job(train::kLeNet, GetParam(), train::profiling_settings("4"));
  const RankProfile p = make_profile(profile_steps(job, 4), *job.programs, 0, std::nullopt);
  double forward = 0, update = 0;
  for (const OperationProfile& o : p.operations) {
    if (o.layer == "conv2" && o.name == RT_OP_CONV2D) forward += o.calls;
    if (o.name == RT_OP_SGD) update += o.calls;
  }
  EXPECT_NEAR(forward, 4, 1e-9);
  EXPECT_NEAR(update, 1, 1e-9);
}

TEST_P(ProfileTest, TheMemoryIsThatOfThePlan) {
  Job job(train::kLeNet, GetParam(), train::profiling_settings());
  const RankProfile p = make_profile(profile_steps(job, 4), *job.programs, 0, std::nullopt);
  const exec::Program& program =
      *job.programs->compiled(train::full_step(*job.programs).back()).program;
  EXPECT_EQ(p.memory.persistent, job.programs->rank_model().storage().total_bytes());
  // The plan rounds each buffer up to the alignment of the device.
  const uint64_t rounding =
      program.memory().buffers.size() * job.programs->setup().device->properties().alignment;
  EXPECT_LE(p.memory.peak - p.memory.persistent, program.memory().lower_bound);
  EXPECT_GE(p.memory.peak - p.memory.persistent + rounding, program.memory().lower_bound);
  ASSERT_EQ(p.memory.timeline.size(), program.graph().nodes.size());
  uint64_t most = 0, alive = 0;
  for (const NamedBytes& point : p.memory.timeline) most = std::max(most, point.bytes);
  EXPECT_EQ(most, p.memory.peak);
  for (const NamedBytes& value : p.memory.alive_at_peak) alive += value.bytes;
  EXPECT_EQ(alive, p.memory.peak) << "the values that are alive add up to the peak";
  EXPECT_TRUE(std::is_sorted(p.memory.alive_at_peak.begin(), p.memory.alive_at_peak.end(),
                             [](const auto& a, const auto& b) { return a.bytes > b.bytes; }));
}

TEST_P(ProfileTest, TheRooflineIsTheLargerOfBothLimits) {
  Job job(train::kLeNet, GetParam(), train::profiling_settings());
  const RankProfile p = make_profile(profile_steps(job, 4), *job.programs, 0, kRoofline);
  int arithmetic = 0, memory = 0;
  for (const OperationProfile& o : p.operations) {
    ASSERT_TRUE(o.roofline_share.has_value()) << o.layer << " " << o.name;
    if (o.calls > 1.5) continue;  // operations of several sizes have one share
    const double by_flops = o.flops / 10, by_bytes = o.bytes;  // nanoseconds
    (by_flops > by_bytes ? arithmetic : memory) += 1;
    EXPECT_NEAR(*o.roofline_share, std::max(by_flops, by_bytes) / o.ns, 1e-6 * *o.roofline_share);
  }
  EXPECT_GT(arithmetic, 0);
  EXPECT_GT(memory, 0);
}

TEST_P(ProfileTest, TheJsonHasTheKeysOfTheFormat) {
  Job job(train::kTiny, GetParam(), train::profiling_settings());
  const RankProfile p = make_profile(profile_steps(job, 4), *job.programs, 0, kRoofline);
  const auto j = nlohmann::json::parse(to_json(p));
  for (const char* key :
       {"rank", "device", "steps", "step_ns", "phases", "communication", "data_wait_ns",
        "cpu_utilisation", "device_utilisation", "operations", "memory"})
    EXPECT_TRUE(j.contains(key)) << key;
  EXPECT_EQ(j["steps"], nlohmann::json({2, 4}));
  for (const char* key : {"forward_ns", "backward_ns", "update_ns"})
    EXPECT_GT(j["phases"][key], 0) << key;
  double share = 0;
  for (const auto& o : j["operations"]) {
    share += o["share"].get<double>();
    EXPECT_EQ(o.size(), 10u) << o;
  }
  EXPECT_GT(share, 0);
  EXPECT_LE(share, 1);
  EXPECT_EQ(j["memory"]["timeline"][0].size(), 2u);
  EXPECT_EQ(j["memory"]["alive_at_peak"][0].size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Devices, ProfileTest, testing::Values("reference", "simulated"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace runtime::analysis
