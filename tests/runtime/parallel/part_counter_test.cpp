#include "runtime/parallel/part_counter.h"

#include <gtest/gtest.h>

namespace runtime::parallel {
namespace {

TEST(PartCounter, PartsComeInOrderEachOnce) {
  PartCounter counter(2, 3);
  for (int64_t part = 0; part < 4; ++part) EXPECT_EQ(counter.take(), part);
  EXPECT_EQ(counter.next(), 4);
}

// Step s may begin when all work items of step s - 1 - max_staleness have been applied, and not
// before.
TEST(PartCounter, TheBound) {
  PartCounter counter(2, 1);
  for (int64_t part = 0; part < 4; ++part) ASSERT_EQ(counter.take(), part);  // steps 0 and 1
  EXPECT_EQ(counter.take(), std::nullopt);
  EXPECT_TRUE(counter.applied(0));
  EXPECT_EQ(counter.take(), std::nullopt) << "part 1 of step 0 is missing";
  EXPECT_TRUE(counter.applied(3)) << "out of order";
  EXPECT_EQ(counter.take(), std::nullopt);
  EXPECT_TRUE(counter.applied(1));
  EXPECT_EQ(counter.take(), 4);
  EXPECT_EQ(counter.take(), 5);
  EXPECT_EQ(counter.take(), std::nullopt) << "part 2 of step 1 is missing";
  EXPECT_TRUE(counter.applied(2));
  EXPECT_EQ(counter.take(), 6);
}

TEST(PartCounter, StalenessZeroIsAStepAfterTheOther) {
  PartCounter counter(3, 0);
  for (int64_t part = 0; part < 3; ++part) ASSERT_EQ(counter.take(), part);
  EXPECT_EQ(counter.take(), std::nullopt);
  for (int64_t part = 0; part < 3; ++part) counter.applied(part);
  EXPECT_TRUE(counter.all_applied());
  EXPECT_EQ(counter.take(), 3);
}

TEST(PartCounter, KnowsWhatIsUnderWay) {
  PartCounter counter(2, 1);
  EXPECT_TRUE(counter.all_applied());
  counter.take();
  EXPECT_FALSE(counter.all_applied());
  EXPECT_FALSE(counter.applied(1)) << "not taken";
  EXPECT_TRUE(counter.applied(0));
  EXPECT_FALSE(counter.applied(0)) << "twice";
}

}  // namespace
}  // namespace runtime::parallel
