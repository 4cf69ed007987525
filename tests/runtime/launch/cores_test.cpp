// Checks how cores, hardware threads and quotas are divided among ranks.
#include "runtime/launch/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace runtime::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const Cores kFour = {{0}, {1}, {2}, {3}};
const Cores kHardwareThreads = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};
const Cores kFive = {{0}, {1}, {2}, {3}, {9}};

TEST(Cores, EqualContiguousParts) {
  EXPECT_THAT(share_of(kFour, 0, 1).processors, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(share_of(kFour, 0, 2).processors, ElementsAre(0, 1));
  EXPECT_THAT(share_of(kFour, 1, 2).processors, ElementsAre(2, 3));
  EXPECT_EQ(share_of(kFour, 1, 2).threads, 2);
}

TEST(Cores, HardwareThreadsStayTogether) {
  const CoreShare share = share_of(kHardwareThreads, 1, 4);
  EXPECT_THAT(share.processors, ElementsAre(1, 5));
  EXPECT_EQ(share.threads, 2);
}

TEST(Cores, AllRanksHaveAsManyThreads) {
  EXPECT_THAT(share_of(kFive, 0, 2).processors, ElementsAre(0, 1));
  EXPECT_THAT(share_of(kFive, 1, 2).processors, ElementsAre(2, 3, 9));
  EXPECT_EQ(share_of(kFive, 0, 2).threads, 2);
  EXPECT_EQ(share_of(kFive, 1, 2).threads, 2);
  // The process may use only one hardware thread of the last core.
  const Cores uneven = {{0, 2}, {1}};
  EXPECT_EQ(share_of(uneven, 0, 2).threads, 1);
}

TEST(Cores, MoreRanksThanCoresShareAll) {
  for (int rank = 0; rank < 5; ++rank) {
    const CoreShare share = share_of(kHardwareThreads, rank, 5);
    EXPECT_EQ(share.threads, 1);
    EXPECT_THAT(share.processors, IsEmpty());
  }
}

TEST(Cores, EveryCoreHasExactlyOneOwner) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    std::vector<int> all;
    for (int rank = 0; rank < ranks; ++rank)
      for (const int processor : share_of(kFive, rank, ranks).processors) all.push_back(processor);
    EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 9)) << ranks;
  }
}

TEST(Cores, ABoundRankStaysWhereItIs) {
  // One rank on a core; two sockets of four cores, with two or five ranks on each.
  EXPECT_EQ(share_of_bound({{5}}, 8, 8).threads, 1);
  EXPECT_EQ(share_of_bound(kFour, 8, 2).threads, 4);
  EXPECT_EQ(share_of_bound(kFour, 8, 4).threads, 2);
  EXPECT_EQ(share_of_bound(kFour, 8, 10).threads, 1);
  EXPECT_THAT(share_of_bound(kFour, 8, 2).processors, IsEmpty());
}

TEST(Cores, AQuotaIsDividedAmongRanks) {
  EXPECT_EQ(within_quota(8, 1, 0), 8);  // no quota
  EXPECT_EQ(within_quota(8, 1, 3), 3);
  EXPECT_EQ(within_quota(2, 1, 3), 2);
  EXPECT_EQ(within_quota(8, 2, 5), 2);
  EXPECT_EQ(within_quota(8, 4, 3), 1);
}

TEST(Cores, APinnedThreadAndItsThreadsStayThere) {
  std::thread([] {
    const int processor = allowed_cores().back().back();
    apply({1, {processor}});
    EXPECT_THAT(allowed_cores(), ElementsAre(ElementsAre(processor)));
    std::thread([&] { EXPECT_EQ(sched_getcpu(), processor); }).join();
    EXPECT_EQ(share_of(RankEnvironment()).threads, 1);
  }).join();
  apply({1, {CPU_SETSIZE - 1}});  // this processor does not exist: no effect
  EXPECT_FALSE(allowed_cores().empty());
}

}  // namespace
}  // namespace runtime::launch
