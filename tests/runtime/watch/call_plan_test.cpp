// Checks which plans end, and that the calls of those that do not are named.
#include "runtime/watch/call_plan.h"

#include <gmock/gmock.h>

#include "rt/communicator.h"

namespace runtime::watch {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

PlanItem call(int32_t kind, uint64_t communicator, int64_t position, int peer = -1) {
  PlanItem item;
  item.call = {.kind = kind, .dtype = RT_FLOAT32, .peer = peer, .count = 8};
  item.call.communicator = communicator;
  item.call.position = position;
  item.call.set_label("c" + std::to_string(position));
  return item;
}

PlanItem wait(int64_t position) {
  PlanItem item{.waits = true};
  item.call.position = position;
  return item;
}

std::string standstill(const std::map<int, Plan>& plans) {
  return find_standstill(plans, {}, [](int rank) { return "rank " + std::to_string(rank); });
}

// Each rank reduces on two communicators, and waits for both afterwards.
Plan reduces(uint64_t first, uint64_t second) {
  return {call(RT_ALL_REDUCE, first, 1), call(RT_ALL_REDUCE, second, 2), wait(1), wait(2)};
}

TEST(Plans, ThatMatchEnd) {
  EXPECT_EQ(standstill({{0, reduces(0, 1)}, {1, reduces(0, 1)}}), "");
  EXPECT_EQ(standstill({{0, {call(RT_SEND, 0, 1, 1), wait(1)}},
                        {1, {call(RT_RECEIVE, 0, 1, 0), wait(1)}}}),
            "");
}

// Communicators do not wait for each other, but the ranks' threads do.
TEST(Plans, TheOrderOfTwoCommunicatorsMattersWhereARankWaitsBetween) {
  EXPECT_EQ(standstill({{0, reduces(0, 1)}, {1, reduces(1, 0)}}), "");
  const auto one_by_one = [](uint64_t first, uint64_t second) {
    return Plan{call(RT_ALL_REDUCE, first, 1), wait(1), call(RT_ALL_REDUCE, second, 2), wait(2)};
  };
  EXPECT_THAT(standstill({{0, one_by_one(0, 1)}, {1, one_by_one(1, 0)}}),
              AllOf(HasSubstr("rank 0 is in all_reduce (8 float32, c1)"),
                    HasSubstr("rank 1 is in all_reduce (8 float32, c1)")));
}

TEST(Plans, CallsThatDifferAreNamed) {
  Plan larger = reduces(0, 1);
  larger[1].call.count = 9;
  EXPECT_EQ(standstill({{0, reduces(0, 1)}, {1, larger}}),
            "rank 0 is in all_reduce (8 float32, c2), rank 1 is in all_reduce (9 float32, c2)");
}

TEST(Plans, ASendThatNobodyReceivesIsNamed) {
  EXPECT_THAT(standstill({{0, {call(RT_SEND, 0, 1, 1), wait(1)}}, {1, {}}}),
              HasSubstr("rank 0 is in send to rank 1 (8 float32, c1)"));
  EXPECT_THAT(standstill({{0, {call(RT_SEND, 0, 1, 7), wait(1)}}, {1, {}}}), HasSubstr("rank 0"));
}

TEST(Plans, PeersThatNoCommunicatorHasAreHarmless) {
  EXPECT_THAT(standstill({{0, {call(RT_SEND, 0, 1, 1), wait(1)}},
                          {1, {call(RT_RECEIVE, 0, 1, -7), wait(1)}}}),
              HasSubstr("rank 1 is in receive"));
}

TEST(Plans, OfMoreRanksThanOneWouldReadAreCounted) {
  std::map<int, Plan> plans;
  for (int rank = 0; rank < 9; ++rank) plans[rank] = {call(RT_ALL_REDUCE, 0, 1), wait(1)};
  plans[9] = {};
  EXPECT_THAT(standstill(plans),
              HasSubstr("rank 3 is in all_reduce (8 float32, c1), and 5 others"));
}

TEST(Plans, HaveTheirCallsByPosition) {
  const Plan plan = reduces(0, 1);
  EXPECT_EQ(calls_in(plan), 2);
  EXPECT_EQ(call_at(plan, 2)->label_text(), "c2");
  EXPECT_EQ(call_at(plan, 3), nullptr);
  EXPECT_THAT(order_of(plan), ElementsAre(HasSubstr("c1: all_reduce"), HasSubstr("communicator 1"),
                                          "the wait for call 1", "the wait for call 2"));
}

}  // namespace
}  // namespace runtime::watch
