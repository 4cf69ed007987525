// Checks that a block of a staging ring is used again only when its copy has run.
#include "rt/sdk/staging.h"

#include <gtest/gtest.h>

#include <string>

namespace rt::sdk {
namespace {

// Tickets are numbers; the work of those up to `done` has run.
struct Queue {
  StagingRing<int> ring;
  int done = 0;
  std::byte* stage(const std::string& text, int ticket) {
    std::byte* const copy =
        ring.stage(text.data(), text.size(), [this](int t) { return t <= done; });
    ring.hand_over(ticket);
    return copy;
  }
};

std::string text_of(const std::byte* bytes, size_t count) {
  return {reinterpret_cast<const char*>(bytes), count};
}

TEST(StagingRing, KeepsEachCopyUntilItsWorkHasRun) {
  Queue queue;
  const std::byte* const first = queue.stage("first", 1);
  const std::byte* const second = queue.stage("second", 2);
  EXPECT_NE(first, second);
  EXPECT_EQ(text_of(first, 5), "first");
  EXPECT_EQ(text_of(second, 6), "second");
  queue.done = 1;
  EXPECT_EQ(queue.stage("third", 3), first) << "the block of work that has run";
  EXPECT_EQ(text_of(second, 6), "second");
}

TEST(StagingRing, DoesNotGrowInALoop) {
  Queue queue;
  for (int i = 1; i <= 100; ++i) {
    queue.done = i - 3;  // two copies are under way
    queue.stage("text", i);
  }
  EXPECT_EQ(queue.ring.bytes(), 3u * 4096);
}

TEST(StagingRing, MakesRoomForLargerCopies) {
  Queue queue;
  queue.stage("small", 1);
  queue.done = 1;
  const std::string large(5000, 'x');
  EXPECT_EQ(text_of(queue.stage(large, 2), large.size()), large);
  EXPECT_EQ(queue.ring.bytes(), 4096u + 8192);
}

}  // namespace
}  // namespace rt::sdk
