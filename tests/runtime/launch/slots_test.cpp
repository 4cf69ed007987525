// Which slots the ranks take when some are left out.
#include "runtime/launch/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runtime::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SlotsTest, TheRanksTakeThoseThatAreLeft) {
  Slots slots(4, 2, 1);
  EXPECT_THAT(slots.of_ranks(), ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(slots.complete());
  ASSERT_TRUE(slots.leave_out(1));
  EXPECT_THAT(slots.of_ranks(), ElementsAre(0, 2, 3));
  EXPECT_FALSE(slots.complete());
  ASSERT_TRUE(slots.leave_out(1));  // rank 1 is in slot 2 now
  EXPECT_THAT(slots.of_ranks(), ElementsAre(0, 3));
  EXPECT_THAT(slots.left_out(), ElementsAre(1, 2));
}

TEST(SlotsTest, FewerThanTheLeastAreRefused) {
  Slots slots(3, 2, 1);
  ASSERT_TRUE(slots.leave_out(0));
  EXPECT_FALSE(slots.leave_out(0));
  EXPECT_THAT(slots.of_ranks(), ElementsAre(1, 2));
}

TEST(SlotsTest, WithoutALeastNoneIsLeftOut) {
  Slots slots(3, 0, 1);
  EXPECT_FALSE(slots.leave_out(2));
  EXPECT_TRUE(slots.complete());
}

// The slot that stays empty takes the place of the next one that is lost.
TEST(SlotsTest, RanksMakeWholeReplicas) {
  Slots slots(6, 2, 2);
  ASSERT_TRUE(slots.leave_out(0));
  EXPECT_THAT(slots.of_ranks(), ElementsAre(1, 2, 3, 4));
  ASSERT_TRUE(slots.leave_out(1));
  EXPECT_THAT(slots.of_ranks(), ElementsAre(1, 3, 4, 5));
  ASSERT_TRUE(slots.leave_out(0));
  ASSERT_TRUE(slots.leave_out(0));
  EXPECT_THAT(slots.of_ranks(), ElementsAre(4, 5));
  EXPECT_FALSE(slots.leave_out(1));
}

TEST(SlotsTest, ALeastBelowAReplicaIsAReplica) {
  Slots slots(4, 1, 4);
  EXPECT_FALSE(slots.leave_out(0));
}

TEST(SlotsTest, AllAreTakenBackTogether) {
  Slots slots(3, 1, 1);
  ASSERT_TRUE(slots.leave_out(2));
  ASSERT_TRUE(slots.leave_out(0));
  slots.take_back();
  EXPECT_THAT(slots.of_ranks(), ElementsAre(0, 1, 2));
  EXPECT_THAT(slots.left_out(), IsEmpty());
}

}  // namespace
}  // namespace runtime::launch
