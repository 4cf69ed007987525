// Checks the times of collectives, and the verdict in words.
#include "runtime/parallel/efficiency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rt/communicator.h"

namespace runtime::parallel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr double kPicosecond = 1e-12;

TEST(CollectiveSeconds, ClosedForms) {
  const Link link{1e-3, 1e6, true};
  const uint64_t bytes = 4000;
  // On 4 ranks an all-reduce is a reduce-scatter and an all-gather of 3 messages each.
  EXPECT_NEAR(collective_seconds(RT_ALL_REDUCE, bytes, 4, link), 6e-3 + 2 * 0.75 * 4e-3,
              kPicosecond);
  EXPECT_NEAR(collective_seconds(RT_REDUCE_SCATTER, bytes, 4, link), 3e-3 + 0.75 * 4e-3,
              kPicosecond);
  EXPECT_NEAR(collective_seconds(RT_ALL_GATHER, bytes, 4, link), 3e-3 + 0.75 * 4e-3, kPicosecond);
  EXPECT_NEAR(collective_seconds(RT_ALL_TO_ALL, bytes, 4, link), 3e-3 + 0.75 * 4e-3, kPicosecond);
  EXPECT_NEAR(collective_seconds(RT_BROADCAST, bytes, 4, link), 2e-3 + 4e-3, kPicosecond);
  EXPECT_NEAR(collective_seconds(RT_REDUCE, bytes, 5, link), 3e-3 + 4e-3, kPicosecond);
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
  // 6 + 1 < 10, so two ranks pay.
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

// Two ranks share cores, so that each takes longer than one rank alone.
TEST(ComparedRuns, FixedBatchPerRank) {
  const ComparedRuns slower{2, 23.5e-3, 10e-3, false};  // speed-up 0.85
  EXPECT_NEAR(slower.speed_up(), 0.85, 0.01);
  EXPECT_FALSE(slower.pays());
  EXPECT_EQ(
      decide(slower),
      "fixed batch per rank: adding ranks does not pay (efficiency 0.43): a step of 2 ranks / 2 "
      "= 11.750 ms >= a step of one rank = 10.000 ms; ideal would be 5.000 ms: 0.000 ms more "
      "are exposed T_sync, 6.750 ms slower computing of a rank among others");
  EXPECT_TRUE((ComparedRuns{2, 19e-3, 10e-3, false}).pays());
}

TEST(ComparedRuns, FixedGlobalBatch) {
  EXPECT_FALSE((ComparedRuns{2, 10e-3, 10e-3, true}).pays());
  EXPECT_EQ(decide(ComparedRuns{2, 6e-3, 10e-3, true}),
            "fixed global batch: adding ranks pays (efficiency 0.83): a step of 2 ranks = 6.000 ms "
            "< a step of one rank = 10.000 ms; ideal would be 5.000 ms: 0.000 ms more are exposed "
            "T_sync, 1.000 ms slower computing of a rank among others");
}

// 10 / 9.6 / 2 = 0.52. Of four ranks, those behind the first have to bring 1.5 ranks: 10 / 4 ms.
TEST(ComparedRuns, ASmallGainIsCalledSmallWithItsReason) {
  EXPECT_EQ(decide(ComparedRuns{2, 9.6e-3, 10e-3, true, 3e-3}),
            "fixed global batch: adding ranks pays little (efficiency 0.52): a step of 2 ranks = "
            "9.600 ms < a step of one rank = 10.000 ms; ideal would be 5.000 ms: 3.000 ms more are "
            "exposed T_sync, 1.600 ms slower computing of a rank among others");
  // In the time of the same work, half of each time of a step counts.
  EXPECT_THAT(decide(ComparedRuns{2, 19.2e-3, 10e-3, false, 6e-3}),
              AllOf(HasSubstr("pays little (efficiency 0.52)"), HasSubstr("3.000 ms more are")));
  EXPECT_THAT(decide(ComparedRuns{4, 4.1e-3, 10e-3, true}), HasSubstr("pays little (efficiency"));
  EXPECT_THAT(decide(ComparedRuns{4, 3.9e-3, 10e-3, true}), HasSubstr("pays (efficiency 0.64)"));
  EXPECT_THAT(decide(ComparedRuns{2, 5.2e-3, 10e-3, true}), Not(HasSubstr("ideal")));
}

// ---- texts

Explanation explanation(const StepTimes& times) {
  Explanation e;
  e.times = times;
  e.global_batch = 100;
  e.alone = "measured";
  return e;
}

TEST(Explain, ItPays) {
  Explanation e = explanation({2, 6e-3, 11e-3, 3e-3, 0.5e-3});
  e.predicted = StepTimes{2, 5e-3, 10e-3, 3e-3, 0.5e-3};  // efficiency 10 / 5.5 / 2
  EXPECT_THAT(
      explain(e),
      AllOf(HasSubstr("2 ranks, global batch 100: T_comp 6.000 ms + exposed T_sync 0.500 ms = "
                      "6.500 ms a step, predicted 5.500 ms (T_sync alone 3.000 ms)"),
            HasSubstr("efficiency 0.85, predicted 0.91, speed-up 1.69"), HasSubstr("measured"),
            HasSubstr("fixed global batch: adding ranks pays (efficiency 0.85): T_comp(B/R) + "
                      "exposed T_sync = 6.500 "
                      "ms < T_comp(B) = 11.000 ms"),
            HasSubstr("fixed batch per rank: adding ranks pays little (efficiency 0.67): (T_comp + "
                      "T_sync) / R = 4.500 ms < "
                      "T_comp = 6.000 ms"),
            HasSubstr("next: little waits"), HasSubstr("--scaling 1,2,4")));
}

TEST(Explain, ItDoesNotPay) {
  // The ranks save 5 ms and lose 10 ms: they break even with twice the batch.
  const std::string text = explain(explanation({2, 5e-3, 10e-3, 10e-3, 10e-3}));
  EXPECT_THAT(
      text,
      AllOf(HasSubstr(
                "fixed global batch: adding ranks does not pay (efficiency 0.33): T_comp(B/R) + "
                "exposed T_sync = 15.000 ms >= T_comp(B) = 10.000 ms"),
            HasSubstr("fixed batch per rank: adding ranks does not pay"),
            HasSubstr("a global batch above 200 would pay"), Not(HasSubstr("predicted"))));
}

TEST(Explain, AMeshHasALineForEachAxis) {
  Explanation e = explanation({4, 6e-3, 20e-3, 3e-3, 4e-3, {0, 1e-3, 2e-3}, {0, 1e-3, 3e-3}});
  e.mesh = {1, 2, 2};
  e.predicted = StepTimes{4, 6e-3, 20e-3, 3e-3, 2e-3, {0, 1e-3, 1e-3}, {0, 0, 2e-3}};
  EXPECT_THAT(explain(e),
              AllOf(HasSubstr("4 ranks (data 1 x tensor 2 x pipeline 2), global batch 100"),
                    HasSubstr("tensor: T_sync 1.000 ms, exposed 1.000 ms, predicted 0.000 ms\n"),
                    HasSubstr("pipeline: T_sync 2.000 ms, exposed 3.000 ms, predicted 2.000 ms; "
                              "bubble 0.300, predicted 0.250\n"),
                    HasSubstr("next: ranks wait for other stages"), Not(HasSubstr("data: ")),
                    Not(HasSubstr("fixed batch per rank"))));
}

TEST(Explain, NextSteps) {
  EXPECT_THAT(explain(explanation({2, 10e-3, 10e-3, 1e-3, 1e-3})), HasSubstr("fewer ranks"));
  EXPECT_THAT(explain(explanation({2, 5e-3, 10e-3, 2e-3, 2e-3})),
              AllOf(HasSubstr("29% of a step waits"), HasSubstr("comm.bucket_mb")));
  EXPECT_THAT(explain(explanation({2, 5e-3, 10e-3, 0.5e-3, 2e-3})), HasSubstr("come late"));
}

TEST(Explain, NobodyIsToldToSetWhatIsSet) {
  Explanation e = explanation({2, 5e-3, 10e-3, 0.5e-3, 2e-3});
  EXPECT_THAT(explain(e), HasSubstr("set parallelism.share = \"by_speed\""));
  e.shares_by_speed = true;
  EXPECT_THAT(explain(e), AllOf(HasSubstr("come late"), Not(HasSubstr("by_speed"))));
}

}  // namespace
}  // namespace runtime::parallel
