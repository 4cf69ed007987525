// Checks the ranks and names of communicators of a mesh.
#include "runtime/launch/groups.h"

#include <gmock/gmock.h>

namespace runtime::launch {
namespace {

using testing::ElementsAre;

TEST(Groups, AreTheRanksAlongEachAxisOfTheMesh) {
  const watch::Groups groups = groups_of({.data = 2, .tensor = 2, .pipeline = 2});
  EXPECT_THAT(groups.names,
              ElementsAre("the data axis", "the data axis (not gradients)", "the tensor axis",
                          "the pipeline axis", "the data axis (ZeRO's partitions)",
                          "the data axis (copies of a partition)", "all ranks"));
  EXPECT_THAT(groups.members(0, 5), ElementsAre(5, 7));
  EXPECT_THAT(groups.members(1, 5), ElementsAre(5, 7));
  EXPECT_THAT(groups.members(2, 5), ElementsAre(4, 5));
  EXPECT_THAT(groups.members(3, 5), ElementsAre(1, 5));
  EXPECT_THAT(groups.members(6, 5), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(Groups, NeighboursHavePartitionsAndOthersCopies) {
  const watch::Groups groups = groups_of({.data = 6, .tensor = 2, .zero_ranks = 3});
  EXPECT_THAT(groups.members(4, 8), ElementsAre(6, 8, 10));
  EXPECT_THAT(groups.members(5, 8), ElementsAre(2, 8));
}

TEST(Groups, TheOnlyCommunicatorIsNotNamed) {
  const watch::Groups groups = groups_of({.data = 3});
  EXPECT_EQ(groups.names[0], "");
  EXPECT_THAT(groups.members(0, 1), ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace runtime::launch
