// Checks which of several calls in progress is called the longest.
#include "plugins/host/in_call.h"

#include <gtest/gtest.h>

#include <thread>

namespace plugins::host {
namespace {

using namespace std::chrono_literals;

Place place(const char* stream, const char* last) {
  return {std::make_shared<const std::string>(stream), std::make_shared<const std::string>(last)};
}

TEST(InCall, TheOneThatWasSeenFirstIsTheLongest) {
  Calls calls;
  EXPECT_FALSE(calls.longest());
  const Place first = place("simulated:0 stream 0", "layer 'conv1'"), second = place("other", "x");
  {
    const InCall outer(calls, first);
    ASSERT_TRUE(calls.longest());
    EXPECT_EQ(calls.longest()->place, "simulated:0 stream 0, launched last: layer 'conv1'");
    std::this_thread::sleep_for(2ms);
    const InCall inner(calls, second);
    const auto longest = calls.longest();
    EXPECT_EQ(longest->place, "simulated:0 stream 0, launched last: layer 'conv1'");
    EXPECT_GE(longest->time, 2ms);
    EXPECT_EQ(longest->longest, 0ns) << "none has returned";
  }
  EXPECT_FALSE(calls.longest());
  const InCall next(calls, second);
  EXPECT_GE(calls.longest()->longest, 2ms);
}

TEST(InCall, MayEndInAnyOrder) {
  Calls calls;
  const Place at = place("a stream", "layer 'x'");
  auto first = std::make_unique<InCall>(calls, at);
  auto second = std::make_unique<InCall>(calls, at);
  auto third = std::make_unique<InCall>(calls, at);
  second.reset();
  first.reset();
  EXPECT_TRUE(calls.longest());
  third.reset();
  EXPECT_FALSE(calls.longest());
}

TEST(InCall, APlaceWithoutNamesHasAText) { EXPECT_EQ(to_string(Place{}), "a stream"); }

}  // namespace
}  // namespace plugins::host
