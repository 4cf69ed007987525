// Checks how candidates are measured, on a simulated accelerator whose clock only launches move.
#include "runtime/exec/tuner.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "runtime/exec/device_target.h"
#include "runtime/graph/fuse.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::exec {
namespace {

using graph::Build;
using graph::Graph;
using graph::Node;
using graph::ValueId;
using graph::ValueKind;
using std::chrono::nanoseconds;

std::shared_ptr<plugins::host::Device> open(std::map<std::string, std::string> options) {
  options.try_emplace("max_delay_us", "0");
  options.try_emplace("poison", "true");
  return test::open_device("simulated", std::move(options));
}

// A machine without other work.
TargetOptions idle(Tune tune = Tune::kQuick) {
  TargetOptions options{.tune = tune};
  options.waited = [] { return nanoseconds(0); };
  return options;
}

// y = a + b, with so many rows.
Graph sum(int64_t rows = 4) {
  Graph graph;
  Build build(graph);
  build.layer = "sum";
  const auto input = [&](const char* name) {
    return test::add_value(graph, name, ValueKind::kInput, {rows, 8}, RT_FLOAT32);
  };
  graph.value(build.add(input("a"), input("b"))).kind = ValueKind::kOutput;
  return graph;
}

// The candidates of a node with the times that were measured.
std::vector<graph::Candidate> measured(DeviceTarget& target, const Graph& graph, size_t node = 0) {
  const Node& n = graph.nodes[node];
  std::vector<graph::Candidate> list =
      target.candidates(graph, n, std::vector<uint64_t>(n.inputs.size(), 0),
                        std::vector<uint64_t>(n.outputs.size(), 0));
  target.measure(graph, n, list);
  return list;
}

std::vector<double> nanoseconds_of(const std::vector<graph::Candidate>& list) {
  std::vector<double> ns;
  for (const graph::Candidate& c : list) ns.push_back(c.ns);
  return ns;
}

using Times = std::vector<double>;

// By the clock of the device. What a launch takes longer after the host has waited does not count.
TEST(Tuner, LaunchesAreMeasuredByTheDeviceWhileTheyQueue) {
  DeviceTarget target(open({{"algorithm_ns", "12000,10000"}, {"wake_ns", "1000000"}}), idle());
  EXPECT_EQ(nanoseconds_of(measured(target, sum())), (Times{12000, 10000}));
  EXPECT_TRUE(target.notes().empty());
}

TEST(Tuner, LaunchesThatCannotBeRecordedAreQueuedOneByOne) {
  DeviceTarget target(
      open({{"algorithm_ns", "12000,10000"}, {"wake_ns", "1000000"}, {"refuse_capture", "add"}}),
      idle());
  EXPECT_EQ(nanoseconds_of(measured(target, sum())), (Times{12000, 10000}));
}

// Each first launch loads code for 0.4 of a second; 1 second of launches may be measured.
TEST(Tuner, LoadingCodeIsNoPartOfTimesAndBudget) {
  DeviceTarget target(open({{"algorithm_ns", "12000,10000"}, {"load_ns", "400000000"}}), idle());
  for (int64_t rows = 1; rows <= 5; ++rows)
    EXPECT_EQ(nanoseconds_of(measured(target, sum(rows))), (Times{12000, 10000})) << rows;
}

TEST(Tuner, WithoutBudgetEstimatesStay) {
  const std::map<std::string, std::string> slow = {{"algorithm_ns", "400000000,100000000"}};
  DeviceTarget target(open(slow), idle());
  EXPECT_EQ(nanoseconds_of(measured(target, sum(1))), (Times{0, 0})) << "one was measured";
  EXPECT_EQ(nanoseconds_of(measured(target, sum(2))), (Times{0, 0}));
  DeviceTarget unlimited(open(slow), idle(Tune::kFull));
  EXPECT_EQ(nanoseconds_of(measured(unlimited, sum(1))), (Times{4e8, 1e8}));
}

// It takes 0.9 seconds, of which there is one: launched twice, it would leave nothing for others.
TEST(Tuner, AHopelessCandidateIsNotLaunchedAgain) {
  DeviceTarget target(open({{"algorithm_ns", "10000,900000000"}}), idle());
  for (int64_t rows = 1; rows <= 4; ++rows)
    EXPECT_EQ(nanoseconds_of(measured(target, sum(rows))), (Times{10000, 9e8})) << rows;
}

TEST(Tuner, ASlowFirstLaunchIsNoReasonToGiveUp) {
  DeviceTarget target(open({{"algorithm_ns", "10000,8000"}, {"load_ns", "20000000"}}), idle());
  EXPECT_EQ(nanoseconds_of(measured(target, sum())), (Times{10000, 8000}));
}

// Times scatter by more than what the algorithms differ by, so that one number says nothing.
TEST(Tuner, WhatIsCloseIsMeasuredAgain) {
  DeviceTarget target(open({{"algorithm_ns", "102000,100000"}, {"scatter_ns", "5000"}}), idle());
  const Times ns = nanoseconds_of(measured(target, sum()));
  EXPECT_LT(ns[1], ns[0] * 1.001);
  EXPECT_TRUE(target.notes().empty());
}

TEST(Tuner, EquallyFastCandidatesStayInTheirOrder) {
  DeviceTarget target(open({{"algorithm_ns", "10000,10000,9990"}}), idle());
  const Times ns = nanoseconds_of(measured(target, sum()));
  EXPECT_EQ(ns[0], 9990);
  EXPECT_LT(ns[0], ns[1]);
  EXPECT_LT(ns[1], ns[2]);
}

// y = max_pool2d(x), and its gradient, which reads the positions that the pooling has saved.
Graph pooling() {
  Graph graph;
  Build build(graph);
  build.layer = "pool";
  const ValueId x = test::add_value(graph, "x", ValueKind::kInput, {2, 6, 6, 4}, RT_FLOAT32);
  const ValueId y = build.max_pool2d(x, {2, 2, 2, 2, {}});
  graph::Value saved;
  saved.dtype = RT_UINT8;
  saved.dims = {0};
  graph.nodes[0].saved = graph.add_value(saved);
  Node backward = graph.nodes[0];
  backward.op = RT_OP_MAX_POOL2D_BACKWARD;
  backward.phase = graph::Phase::kBackward;
  backward.inputs = {
      test::add_value(graph, "dy", ValueKind::kInput, graph.value(y).dims, RT_FLOAT32)};
  backward.outputs = {
      test::add_value(graph, "dx", ValueKind::kOutput, graph.value(x).dims, RT_FLOAT32)};
  graph.nodes.push_back(backward);
  return graph;
}

TEST(Tuner, BackwardNodesReadWhatTheirForwardNodeHasSaved) {
  DeviceTarget target(open({{"algorithm_ns", "12000,10000"}}), idle());
  EXPECT_EQ(nanoseconds_of(measured(target, pooling(), 1)), (Times{12000, 10000}));
  EXPECT_TRUE(target.notes().empty());
}

TEST(Tuner, AttentionIsMeasuredWithItsStatistics) {
  Graph graph;
  Build build(graph);
  build.layer = "attention";
  const ValueId qkv = test::add_value(graph, "qkv", ValueKind::kInput, {2, 5, 24}, RT_FLOAT32);
  const ValueId y = build.attention(qkv, 2, true);
  graph::Value saved;
  saved.dtype = RT_UINT8;
  saved.dims = {0};
  graph.nodes[0].saved = graph.add_value(saved);
  Node backward = graph.nodes[0];
  backward.op = RT_OP_ATTENTION_BACKWARD;
  const auto like = [&](const char* name, ValueId v) {
    return test::add_value(graph, name, ValueKind::kInput, graph.value(v).dims, RT_FLOAT32);
  };
  backward.inputs = {like("dy", y), qkv, y};
  backward.outputs = {like("dqkv", qkv)};
  graph.nodes.push_back(backward);
  DeviceTarget target(open({{"algorithm_ns", "12000,10000"}}), idle());
  EXPECT_EQ(nanoseconds_of(measured(target, graph, 1)), (Times{12000, 10000}));
  EXPECT_TRUE(target.notes().empty());
}

// A mean of windows saves nothing, where the convolution with relu of another candidate does: the
// first would write its bits into the memory of the second, which has other sizes (the address
// sanitizer sees it).
TEST(Tuner, WhatSavesNothingIsGivenNoSavedData) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the build has no cpu backend";
  Graph graph;
  Build build(graph);
  build.layer = "conv";
  const auto value = [&](const char* name, ValueKind kind, graph::Dims dims) {
    return test::add_value(graph, name, kind, std::move(dims), RT_FLOAT32);
  };
  const ValueId x = value("x", ValueKind::kInput, {16, 7, 12, 2});
  const ValueId w = value("w", ValueKind::kParameter, {24, 3, 2, 2});
  graph::Convolution same;
  same.padding = {1, 1, 0, 1};
  const ValueId y = build.add(build.conv2d(x, w, same), value("b", ValueKind::kParameter, {24}));
  const ValueId pooled = build.avg_pool2d(y, {3, 2, 3, 2, {}, true});
  graph.value(pooled).kind = ValueKind::kOutput;
  DeviceTarget target(test::open_device("cpu"), idle());
  EXPECT_NO_THROW(graph::fit_to_device(graph, target));
}

TEST(Tuner, ABackwardNodeWithoutItsForwardNodeSaysSo) {
  DeviceTarget target(open({{"algorithm_ns", "12000,10000"}, {"refuse", "max_pool2d"}}), idle());
  EXPECT_EQ(nanoseconds_of(measured(target, pooling(), 1)), (Times{0, 0}));
  ASSERT_EQ(target.notes().size(), 1u);
  EXPECT_EQ(
      target.notes()[0],
      "device.tune: max_pool2d_backward is not measured: simulated:0 does not offer max_pool2d "
      "in the layouts of simulated");
}

TEST(Tuner, WhatFailsIsLeftOut) {
  DeviceTarget target(
      open({{"algorithm_ns", "12000,10000"}, {"fail_launch", "add"}, {"fail_after", "200"}}),
      idle());
  Graph graph = sum();
  const auto list = measured(target, graph);
  ASSERT_EQ(list.size(), 1u) << "the second fails while it is measured";
  EXPECT_EQ(list[0].algorithm, 1u);
}

class Kept : public testing::Test {
 protected:
  // The files of decisions after the graph was compiled.
  size_t files_of(TargetOptions options, std::vector<std::string>* notes = nullptr,
                  const std::string& scatter = "0") {
    const test::TemporaryFolder folder;
    options.cache_folder = folder.path();
    DeviceTarget target(open({{"algorithm_ns", "400000,300000,300000,300000,300000,300000"},
                              {"scatter_ns", scatter}}),
                        options);
    Graph graph = sum();
    graph::choose_layouts(graph, target);
    EXPECT_EQ(options.decisions->all().size(), 1u) << "this run uses it";
    if (notes != nullptr) *notes = target.notes();
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder.path()),
                                             std::filesystem::directory_iterator()));
  }
};

TEST_F(Kept, DecisionsOfAnIdleMachine) { EXPECT_EQ(files_of(idle()), 1u); }

TEST_F(Kept, NothingThatWasMeasuredWhileThreadsWaitedForACore) {
  TargetOptions options = idle();
  auto waited = std::make_shared<nanoseconds>(0);
  options.waited = [waited] { return *waited += std::chrono::hours(1); };
  std::vector<std::string> notes;
  EXPECT_EQ(files_of(options, &notes), 0u);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("the machine was busy"), std::string::npos) << notes[0];
}

// Each launch takes between 0.3 and 4.4 milliseconds, and nobody knows why.
TEST_F(Kept, NothingThatScatters) {
  std::vector<std::string> notes;
  EXPECT_EQ(files_of(idle(), &notes, "4000000"), 0u);
  EXPECT_EQ(notes.size(), 1u);
}

}  // namespace
}  // namespace runtime::exec
