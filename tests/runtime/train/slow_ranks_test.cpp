// Checks which ranks count as slow, among those with the same work.
#include "runtime/train/run/slow_ranks.h"

#include <gmock/gmock.h>

namespace runtime::train {
namespace {

std::vector<int> ranks_in(const std::vector<SlowRank>& slow) {
  std::vector<int> ranks;
  for (const SlowRank& s : slow) ranks.push_back(s.rank);
  return ranks;
}

TEST(SlowRanks, AreThoseAFifthAboveTheMedianOfTheOthers) {
  const parallel::Mesh four{.data = 4};
  EXPECT_THAT(ranks_in(slow_ranks({0.010, 0.013, 0.010, 0.011}, four)), testing::ElementsAre(1));
  EXPECT_THAT(ranks_in(slow_ranks({0.010, 0.0119, 0.010, 0.010}, four)), testing::IsEmpty());
  EXPECT_THAT(ranks_in(slow_ranks({0.010, 0.020, 0.010, 0.030}, four)), testing::ElementsAre(1, 3));
  EXPECT_THAT(ranks_in(slow_ranks({0.010, 0.0131}, {.data = 2})), testing::ElementsAre(1));
  const SlowRank slow = slow_ranks({0.010, 0.013, 0.010, 0.011}, four)[0];
  EXPECT_DOUBLE_EQ(slow.seconds, 0.013);
  EXPECT_DOUBLE_EQ(slow.others, 0.010);
}

TEST(SlowRanks, DifferencesOfLessThanAMillisecondAreNone) {
  EXPECT_THAT(ranks_in(slow_ranks({0.001, 0.0019, 0.001}, {.data = 3})), testing::IsEmpty());
}

// Stages of a pipeline, and parts of a tensor, may have other work.
TEST(SlowRanks, AreComparedAlongTheDataAxis) {
  const parallel::Mesh mesh{.data = 2, .pipeline = 2};  // ranks 2 and 3 are the second stage
  EXPECT_THAT(ranks_in(slow_ranks({0.010, 0.010, 0.020, 0.020}, mesh)), testing::IsEmpty());
  EXPECT_THAT(ranks_in(slow_ranks({0.010, 0.010, 0.020, 0.030}, mesh)), testing::ElementsAre(3));
  EXPECT_THAT(ranks_in(slow_ranks({0.010, 0.030}, {.pipeline = 2})), testing::IsEmpty());
  EXPECT_THAT(ranks_in(slow_ranks({0.010, 0.030}, {.tensor = 2})), testing::IsEmpty());
}

}  // namespace
}  // namespace runtime::train
