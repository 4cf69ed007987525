// Checks the order of work items and the bound on staleness.
#include "runtime/parallel/item_counter.h"

#include <gtest/gtest.h>

namespace runtime::parallel {
namespace {

TEST(ItemCounter, ItemsComeInOrderEachOnce) {
  ItemCounter counter(2, 3);
  for (int64_t item = 0; item < 4; ++item) EXPECT_EQ(counter.take(), item);
  EXPECT_EQ(counter.next(), 4);
}

TEST(ItemCounter, GoesOnFromALaterItem) {
  ItemCounter counter(2, 0, 6);
  EXPECT_TRUE(counter.at_whole_step());
  EXPECT_EQ(counter.take(), 6);
  EXPECT_FALSE(counter.at_whole_step());
  EXPECT_EQ(counter.take(), 7);
  EXPECT_TRUE(counter.at_whole_step());
  EXPECT_EQ(counter.take(), std::nullopt) << "items 6 and 7 have not been applied";
}

// Step s may begin when all work items of step s - 1 - max_staleness have been applied, and not
// before.
TEST(ItemCounter, TheBound) {
  ItemCounter counter(2, 1);
  for (int64_t item = 0; item < 4; ++item) ASSERT_EQ(counter.take(), item);  // steps 0 and 1
  EXPECT_EQ(counter.take(), std::nullopt);
  EXPECT_TRUE(counter.applied(0));
  EXPECT_EQ(counter.take(), std::nullopt) << "item 1 of step 0 is missing";
  EXPECT_TRUE(counter.applied(3)) << "out of order";
  EXPECT_EQ(counter.take(), std::nullopt);
  EXPECT_TRUE(counter.applied(1));
  EXPECT_EQ(counter.take(), 4);
  EXPECT_EQ(counter.take(), 5);
  EXPECT_EQ(counter.take(), std::nullopt) << "item 2 of step 1 is missing";
  EXPECT_TRUE(counter.applied(2));
  EXPECT_EQ(counter.take(), 6);
}

TEST(ItemCounter, StalenessZeroIsAStepAfterTheOther) {
  ItemCounter counter(3, 0);
  for (int64_t item = 0; item < 3; ++item) ASSERT_EQ(counter.take(), item);
  EXPECT_EQ(counter.take(), std::nullopt);
  for (int64_t item = 0; item < 3; ++item) counter.applied(item);
  EXPECT_TRUE(counter.all_applied());
  EXPECT_EQ(counter.take(), 3);
}

TEST(ItemCounter, KnowsWhatIsUnderWay) {
  ItemCounter counter(2, 1);
  EXPECT_TRUE(counter.all_applied());
  counter.take();
  EXPECT_FALSE(counter.all_applied());
  EXPECT_FALSE(counter.applied(1)) << "not taken";
  EXPECT_TRUE(counter.applied(0));
  EXPECT_FALSE(counter.applied(0)) << "twice";
}

}  // namespace
}  // namespace runtime::parallel
