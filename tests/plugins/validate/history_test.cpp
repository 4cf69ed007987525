// Which use of a byte comes before which, without a device.
#include "plugins/validate/history.h"

#include <gtest/gtest.h>

namespace plugins::validate {
namespace {

Use use_of(const Epoch& epoch) { return {epoch, std::make_shared<const std::string>("work")}; }

TEST(Clock, CoversWhatItsStreamsHaveDone) {
  Clock first, second;
  const Epoch a = first.advance(0), b = second.advance(3);
  EXPECT_TRUE(first.covers(a));
  EXPECT_FALSE(first.covers(b));
  first.join(second);
  EXPECT_TRUE(first.covers(b));
  EXPECT_FALSE(first.covers(second.advance(3)));
}

TEST(History, ReadsDoNotConflict) {
  History history;
  Clock first, second;
  EXPECT_FALSE(history.add({100, 10}, false, use_of(first.advance(0)), first));
  EXPECT_FALSE(history.add({100, 10}, false, use_of(second.advance(1)), second));
  EXPECT_TRUE(history.conflict(Range{109, 1}, true, first));
}

TEST(History, AWriteConflictsOnlyWhereItWrote) {
  History history;
  Clock first, second;
  history.add({100, 10}, true, use_of(first.advance(0)), first);
  EXPECT_FALSE(history.conflict(Range{90, 10}, true, second));
  EXPECT_FALSE(history.conflict(Range{110, 10}, true, second));
  EXPECT_TRUE(history.conflict(Range{90, 11}, false, second));
  EXPECT_TRUE(history.conflict(Range{109, 1}, false, second));
  second.join(first);
  EXPECT_FALSE(history.conflict(Range{100, 10}, true, second));
}

TEST(History, ForgetsWhatWasFreed) {
  History history;
  Clock first;
  const Clock nothing;
  history.add({100, 10}, true, use_of(first.advance(0)), first);
  history.forget({100, 5});
  EXPECT_FALSE(history.conflict(Range{100, 5}, true, nothing));
  EXPECT_TRUE(history.conflict(Range{105, 5}, true, nothing));
}

}  // namespace
}  // namespace plugins::validate
