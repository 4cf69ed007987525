// Checks the order of elements while a ring grows and turns.
#include "rt/sdk/ring.h"

#include <gtest/gtest.h>

#include <memory>

namespace rt::sdk {
namespace {

TEST(Ring, GivesBackInOrderWhileItGrowsAndTurns) {
  Ring<int> ring;
  int pushed = 0, popped = 0;
  for (int round = 1; round < 100; ++round) {
    for (int i = 0; i < 3 * round; ++i) ring.push(pushed++);
    for (int i = 0; i < 2 * round; ++i) ASSERT_EQ(ring.pop(), popped++);
  }
  while (!ring.empty()) ASSERT_EQ(ring.pop(), popped++);
  EXPECT_EQ(popped, pushed);
}

TEST(Ring, KeepsNothingOfWhatWasTaken) {
  Ring<std::shared_ptr<int>> ring;
  const auto owned = std::make_shared<int>(1);
  ring.push(owned);
  EXPECT_EQ(owned.use_count(), 2);
  ring.pop();
  EXPECT_EQ(owned.use_count(), 1);
}

}  // namespace
}  // namespace rt::sdk
