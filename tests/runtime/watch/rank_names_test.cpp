// Checks when names of ranks have hosts.
#include "runtime/watch/rank_names.h"

#include <gtest/gtest.h>

namespace runtime::watch {
namespace {

TEST(RankNames, HaveTheHostWhereThereAreSeveral) {
  const RankNames names({"node-a", "node-a", "node-b"});
  EXPECT_EQ(names.of(0), "rank 0 (node-a)");
  EXPECT_EQ(names.of(std::vector<int>{2}), "rank 2 (node-b)");
  EXPECT_EQ(names.of(std::vector<int>{0, 1, 2}), "ranks 0 (node-a), 1 (node-a) and 2 (node-b)");
}

TEST(RankNames, AreNumbersOnOneHostOrAnUnknownOne) {
  for (const RankNames& names : {RankNames(), RankNames({"node-a", "node-a", "node-a"})}) {
    EXPECT_EQ(names.of(2), "rank 2");
    EXPECT_EQ(names.of({0, 2}), "ranks 0 and 2");
  }
  EXPECT_EQ(RankNames({"node-a", "node-b"}).of(7), "rank 7");
}

}  // namespace
}  // namespace runtime::watch
