#include "runtime/parallel/efficiency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/parallel/emit.h"

namespace runtime::parallel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr double kTiny = 1e-12;

TEST(CollectiveSeconds, ClosedForms) {
  const Link link{1e-3, 1e6, true};
  const uint64_t bytes = 4000;
  // 4 ranks: an all-reduce is a reduce-scatter and an all-gather of 3 messages each.
  EXPECT_NEAR(collective_seconds(RT_ALL_REDUCE, bytes, 4, link), 6e-3 + 2 * 0.75 * 4e-3, kTiny);
  EXPECT_NEAR(collective_seconds(RT_REDUCE_SCATTER, bytes, 4, link), 3e-3 + 0.75 * 4e-3, kTiny);
  EXPECT_NEAR(collective_seconds(RT_ALL_GATHER, bytes, 4, link), 3e-3 + 0.75 * 4e-3, kTiny);
  EXPECT_NEAR(collective_seconds(RT_ALL_TO_ALL, bytes, 4, link), 3e-3 + 0.75 * 4e-3, kTiny);
  EXPECT_NEAR(collective_seconds(RT_BROADCAST, bytes, 4, link), 2e-3 + 4e-3, kTiny);
  EXPECT_NEAR(collective_seconds(RT_REDUCE, bytes, 5, link), 3e-3 + 4e-3, kTiny);
}

TEST(CollectiveSeconds, OneRankHasNobodyToTalkTo) {
  for (const int32_t kind : {RT_ALL_REDUCE, RT_ALL_GATHER, RT_BROADCAST})
    EXPECT_EQ(collective_seconds(kind, 1000, 1, {1, 1, true}), 0) << kind;
}

TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(RT_ALL_REDUCE, 2), 1);
  EXPECT_DOUBLE_EQ(bus_factor(RT_ALL_REDUCE, 8), 2 * 7 / 8.0);
  EXPECT_DOUBLE_EQ(bus_factor(RT_ALL_GATHER, 8), 7 / 8.0);
  EXPECT_DOUBLE_EQ(bus_factor(RT_BROADCAST, 8), 1);
}

TEST(StepTimes, FixedGlobalBatch) {
  // 6 + 1 < 10.
  const StepTimes pays{2, 6, 10, 3, 1};
  EXPECT_DOUBLE_EQ(pays.step(), 7);
  EXPECT_DOUBLE_EQ(pays.speed_up(), 10.0 / 7);
  EXPECT_DOUBLE_EQ(pays.efficiency(), 5.0 / 7);
  EXPECT_TRUE(pays.pays());
  EXPECT_FALSE((StepTimes{2, 6, 10, 5, 4}).pays());  // 6 + 4 is no less than 10
  EXPECT_FALSE((StepTimes{2, 6, 10, 5, 4.5}).pays());
}

TEST(StepTimes, FixedBatchPerRank) {
  EXPECT_TRUE((StepTimes{2, 6, 12, 5.9, 0}).pays_per_rank());  // 5.95 < 6
  EXPECT_FALSE((StepTimes{2, 6, 12, 6, 0}).pays_per_rank());   // 6 is no less than 6
  EXPECT_TRUE((StepTimes{4, 6, 24, 17, 17}).pays_per_rank());  // 23 / 4 < 6
  EXPECT_FALSE((StepTimes{1, 6, 6, 0, 0}).pays_per_rank());
}

// ---- a step by hand

class Step : public testing::Test {
 protected:
  graph::ValueId vector(int64_t elements) {
    graph::Value v;
    v.dims = {elements};
    return graph_.add_value(std::move(v));
  }

  void compute(double ns, graph::Phase phase = graph::Phase::kBackward) {
    graph::Node n;
    n.op = RT_OP_MATMUL;
    n.phase = phase;
    n.estimated_ns = ns;
    graph_.nodes.push_back(std::move(n));
  }

  // All-reduce of 250 floats: 1000 bytes, 1000 ns between two ranks.
  Emit::Pair all_reduce(int communicator = 0) {
    const graph::ValueId v = vector(250);
    return emit_.collective(RT_ALL_REDUCE, RT_SUM, v, v, communicator, "bucket");
  }
  void add(const graph::Node& node) { graph_.nodes.push_back(node); }

  Prediction run() { return predict(graph_, options_); }

  graph::Graph graph_;
  Emit emit_{graph_};
  PredictOptions options_{2, 1, 0.5, false, {0, 1e9, true}};
};

constexpr double kNs = 1e-9;

TEST_F(Step, WhatFitsBehindComputingIsHidden) {
  const Emit::Pair bucket = all_reduce();
  compute(500);
  add(bucket.start);
  compute(1500);
  add(bucket.wait);
  compute(100, graph::Phase::kUpdate);
  const StepTimes t = run().times;
  EXPECT_NEAR(t.compute, 2100 * kNs, kTiny);
  EXPECT_NEAR(t.compute_alone, (2 * 2000 + 100) * kNs, kTiny);
  EXPECT_NEAR(t.sync, 1000 * kNs, kTiny);
  EXPECT_NEAR(t.exposed, 0, kTiny);
}

TEST_F(Step, CollectivesOfACommunicatorQueue) {
  const Emit::Pair first = all_reduce(), second = all_reduce();
  compute(500);
  add(first.start);  // 500 to 1500
  compute(200);
  add(second.start);  // 1500 to 2500, not at 700
  compute(300);
  add(first.wait);   // at 1000: 500 too early
  add(second.wait);  // at 1500: 1000 too early
  const Prediction p = run();
  EXPECT_NEAR(p.times.exposed, 1500 * kNs, kTiny);
  EXPECT_NEAR(p.times.sync, 2000 * kNs, kTiny);
  ASSERT_EQ(p.collectives.size(), 2u);
  EXPECT_EQ(p.collectives[0].name, "all_reduce, bucket");
  EXPECT_EQ(p.collectives[0].bytes, 1000u);
  EXPECT_DOUBLE_EQ(p.collectives[0].wire_bytes, 1000);
}

TEST_F(Step, CommunicatorsDoNotWaitForEachOther) {
  const Emit::Pair first = all_reduce(0), second = all_reduce(1);
  add(first.start);
  add(second.start);
  add(first.wait);
  add(second.wait);
  EXPECT_NEAR(run().times.exposed, 1000 * kNs, kTiny);
}

TEST_F(Step, ALinkThatIsIdleMeanwhileHidesNothing) {
  options_.link.in_background = false;
  const Emit::Pair bucket = all_reduce();
  add(bucket.start);
  compute(5000);
  add(bucket.wait);
  EXPECT_NEAR(run().times.exposed, 1000 * kNs, kTiny);
}

TEST_F(Step, MicroStepsAndShardedUpdate) {
  options_.passes = 3;
  options_.sharded_update = true;
  options_.ranks = 4;
  options_.share = 0.25;
  compute(1000);
  compute(50, graph::Phase::kUpdate);
  const StepTimes t = run().times;
  EXPECT_NEAR(t.compute, 3050 * kNs, kTiny);
  EXPECT_NEAR(t.compute_alone, (4 * 3000 + 4 * 50) * kNs, kTiny);
}

TEST_F(Step, WithoutEstimatesWorkFollowsTheSamples) {
  compute(0);
  EXPECT_EQ(run().times.compute, 0);
  EXPECT_DOUBLE_EQ(alone_ratio(graph_, options_), 2);
}

// ---- the words

Explanation explanation(const StepTimes& times) {
  Explanation e;
  e.times = times;
  e.global_batch = 100;
  e.alone = "measured";
  return e;
}

TEST(Explain, ItPays) {
  Explanation e = explanation({2, 6e-3, 11e-3, 3e-3, 0.5e-3});
  e.predicted = 0.9;
  EXPECT_THAT(
      explain(e),
      AllOf(HasSubstr("2 ranks, global batch 100: T_comp 6.000 ms + exposed T_sync 0.500 ms = "
                      "6.500 ms a step (T_sync alone 3.000 ms)"),
            HasSubstr("efficiency 0.85, predicted 0.90, speed-up 1.69"), HasSubstr("measured"),
            HasSubstr("fixed global batch: adding ranks pays: T_comp(B/R) + exposed T_sync = 6.500 "
                      "ms < T_comp(B) = 11.000 ms"),
            HasSubstr("fixed batch per rank: adding ranks pays: (T_comp + T_sync) / R = 4.500 ms < "
                      "T_comp = 6.000 ms"),
            HasSubstr("next: little waits"), HasSubstr("--scaling 1,2,4")));
}

TEST(Explain, ItDoesNotPay) {
  // 5 ms are saved and 10 ms are lost: twice the batch breaks even.
  const std::string text = explain(explanation({2, 5e-3, 10e-3, 10e-3, 10e-3}));
  EXPECT_THAT(text,
              AllOf(HasSubstr("fixed global batch: adding ranks does not pay: T_comp(B/R) + "
                              "exposed T_sync = 15.000 ms >= T_comp(B) = 10.000 ms"),
                    HasSubstr("fixed batch per rank: adding ranks does not pay"),
                    HasSubstr("a global batch above 200 would pay"), Not(HasSubstr("predicted"))));
}

TEST(Explain, NextSteps) {
  EXPECT_THAT(explain(explanation({2, 10e-3, 10e-3, 1e-3, 1e-3})), HasSubstr("fewer ranks"));
  EXPECT_THAT(explain(explanation({2, 5e-3, 10e-3, 2e-3, 2e-3})),
              AllOf(HasSubstr("29% of a step waits"), HasSubstr("comm.bucket_mb")));
  EXPECT_THAT(explain(explanation({2, 5e-3, 10e-3, 0.5e-3, 2e-3})), HasSubstr("come late"));
}

}  // namespace
}  // namespace runtime::parallel
