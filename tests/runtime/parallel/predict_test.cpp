// Checks predicted times of overlapping computation, collectives and stages.
#include "runtime/parallel/predict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "runtime/graph/rewriter.h"

namespace runtime::parallel {
namespace {

constexpr double kNs = 1e-9, kTiny = 1e-12;

// Steps made by hand, for one or several places of a pipeline.
class Step : public testing::Test {
 protected:
  // Begins the program of another place.
  void next_place() {
    last_ = std::make_shared<graph::Graph>();
    graphs_.push_back({last_});
  }
  graph::Graph& graph() { return *last_; }

  void compute(double ns) {
    graph::Node n;
    n.op = RT_OP_MATMUL;
    n.estimated_ns = ns;
    graph().nodes.push_back(std::move(n));
  }

  // A vector of 250 floats, 1000 bytes.
  graph::ValueId vector() {
    graph::Value v;
    v.dims = {250};
    return graph().add_value(std::move(v));
  }

  // Adds an all-reduce, which takes 1000 ns between two ranks.
  graph::CollectivePair all_reduce(int communicator = kGradientsCommunicator) {
    const graph::ValueId v = vector();
    return graph::Rewriter(graph()).collective(RT_ALL_REDUCE, RT_SUM, v, v, communicator, "bucket");
  }
  // Adds a transfer, which takes 1000 ns.
  graph::CollectivePair transfer(int kind, int peer) {
    return graph::Rewriter(graph()).transfer(kind, vector(), peer, kPipelineCommunicator, "x");
  }
  void add(const graph::Node& node) { graph().nodes.push_back(node); }

  Prediction run() { return predict(graphs_, mesh_, one_node(link_)); }

  std::shared_ptr<graph::Graph> last_ = std::make_shared<graph::Graph>();
  StepGraphs graphs_{{last_}};
  Mesh mesh_{2, 1, 1};
  Link link_{0, 1e9, true};
};

TEST_F(Step, WhatFitsBehindComputingIsHidden) {
  const graph::CollectivePair bucket = all_reduce();
  compute(500);
  add(bucket.start);
  compute(1500);
  add(bucket.wait);
  compute(100);
  const StepTimes t = run().times;
  EXPECT_EQ(t.ranks, 2);
  EXPECT_NEAR(t.compute, 2100 * kNs, kTiny);
  EXPECT_NEAR(t.sync, 1000 * kNs, kTiny);
  EXPECT_NEAR(t.exposed, 0, kTiny);
}

TEST_F(Step, CollectivesOfACommunicatorQueue) {
  const graph::CollectivePair first = all_reduce(), second = all_reduce();
  compute(500);
  add(first.start);  // 500 to 1500
  compute(200);
  add(second.start);  // 1500 to 2500, not at 700
  compute(300);
  add(first.wait);   // at 1000: 500 too early
  add(second.wait);  // at 1500: 1000 too early
  const Prediction p = run();
  EXPECT_NEAR(p.times.exposed, 1500 * kNs, kTiny);
  EXPECT_NEAR(p.times.exposed_by_axis[kDataAxis], 1500 * kNs, kTiny);
  ASSERT_EQ(p.ranks[0].collectives.size(), 1u);
  const CollectiveCost& c = p.ranks[0].collectives[0];
  EXPECT_EQ(c.name, "all_reduce, bucket");
  EXPECT_EQ(c.calls, 2);
  EXPECT_EQ(c.bytes, 2000u);
  EXPECT_DOUBLE_EQ(c.wire_bytes, 2000);
  EXPECT_NEAR(c.seconds, 2000 * kNs, kTiny);
}

TEST_F(Step, CommunicatorsDoNotWaitForEachOther) {
  mesh_ = {2, 2, 1};
  const graph::CollectivePair first = all_reduce(), second = all_reduce(kTensorCommunicator);
  add(first.start);
  add(second.start);
  add(first.wait);
  add(second.wait);
  const StepTimes t = run().times;
  EXPECT_NEAR(t.exposed, 1000 * kNs, kTiny);
  EXPECT_NEAR(t.sync_by_axis[kDataAxis], 1000 * kNs, kTiny);
  EXPECT_NEAR(t.sync_by_axis[kTensorAxis], 1000 * kNs, kTiny);
}

TEST_F(Step, ALinkThatIsIdleMeanwhileHidesNothing) {
  link_.in_background = false;
  const graph::CollectivePair bucket = all_reduce();
  add(bucket.start);
  compute(5000);
  add(bucket.wait);
  EXPECT_NEAR(run().times.exposed, 1000 * kNs, kTiny);
}

TEST_F(Step, AllPassesCount) {
  compute(1000);
  graphs_[0].push_back(graphs_[0][0]);
  EXPECT_NEAR(run().times.compute, 2000 * kNs, kTiny);
}

TEST_F(Step, WithoutEstimatesComputeTimesAreZero) {
  compute(0);
  EXPECT_EQ(run().times.compute, 0);
}

// A forward slot takes 2000 ns and a backward slot 3000 ns, in a pipeline of two stages. Each stage
// waits for the other and for the transfers there and back.
TEST_F(Step, StagesWaitForEachOther) {
  mesh_ = {1, 1, 2};
  const graph::CollectivePair forth = transfer(RT_SEND, 1), back = transfer(RT_RECEIVE, 1);
  compute(2000);
  add(forth.start);
  add(back.start);
  add(forth.wait);
  add(back.wait);
  compute(3000);
  next_place();
  const graph::CollectivePair x = transfer(RT_RECEIVE, 0), dx = transfer(RT_SEND, 0);
  add(x.start);
  add(x.wait);
  compute(5000);
  add(dx.start);
  add(dx.wait);
  const Prediction p = run();
  const double period = (2000 + 1000 + 5000 + 1000 + 3000) * kNs;
  ASSERT_EQ(p.ranks.size(), 2u);
  EXPECT_NEAR(p.ranks[0].step(), period, kTiny);
  EXPECT_NEAR(p.ranks[1].step(), period, kTiny);
  EXPECT_NEAR(p.ranks[0].exposed[kPipelineAxis], 7000 * kNs, kTiny);
  EXPECT_NEAR(p.ranks[1].exposed[kPipelineAxis], 7000 * kNs, kTiny);
  EXPECT_NEAR(p.times.bubble(), 7.0 / 12, 1e-9);
  EXPECT_DOUBLE_EQ(p.ranks[0].wire_bytes[kPipelineAxis], 1000);  // only what it sends
}

TEST_F(Step, CollectivesOfAPipelineBeginWithTheLastStage) {
  mesh_ = {1, 1, 2};
  for (const double ns : {500.0, 4000.0}) {
    if (ns > 1000) next_place();
    const graph::CollectivePair norm = all_reduce(kPipelineCommunicator);
    compute(ns);
    add(norm.start);
    add(norm.wait);
  }
  const Prediction p = run();
  EXPECT_NEAR(p.ranks[0].exposed[kPipelineAxis], 4500 * kNs, kTiny);
  EXPECT_NEAR(p.ranks[1].exposed[kPipelineAxis], 1000 * kNs, kTiny);
}

TEST_F(Step, WhatNobodySendsIsAnError) {
  mesh_ = {1, 1, 2};
  const graph::CollectivePair x = transfer(RT_RECEIVE, 1);
  add(x.start);
  add(x.wait);
  next_place();
  compute(1);
  EXPECT_THROW(run(), Error);
}

}  // namespace
}  // namespace runtime::parallel
