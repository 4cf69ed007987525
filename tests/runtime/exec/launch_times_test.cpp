// Checks which candidates are measured again, and which of them count as equally fast.
#include "runtime/exec/launch_times.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace runtime::exec {
namespace {

LaunchTimes times_of(const std::vector<double>& numbers) {
  LaunchTimes times;
  for (const double ns : numbers) times.add(ns);
  return times;
}

// The candidates that are measured again, as letters, if each has these numbers at first and then
// those of `later`, round by round.
std::string repeated(std::vector<LaunchTimes> times,
                     const std::vector<std::vector<double>>& later) {
  std::string order;
  repeat_close(times, [&](size_t i) {
    const std::vector<double>& numbers = later[i];
    times[i].add(numbers[(times[i].size() - kFirstTimes) % numbers.size()]);
    order += static_cast<char>('A' + i);
    return true;
  });
  return order;
}

TEST(LaunchTimes, OtherWorkMakesLaunchesOnlyLonger) {
  const LaunchTimes times = times_of({10, 12, 500, 11, 9});
  EXPECT_EQ(times.time(), 10);
  EXPECT_EQ(times.scatter(), 1);
  EXPECT_EQ(times.spread(), 2);
  EXPECT_EQ(times_of({14, 10}).time(), 10);
  EXPECT_EQ(times_of({10}).scatter(), 0);
  EXPECT_EQ(times_of({10}).spread(), 0);
  EXPECT_TRUE(std::isinf(LaunchTimes().time()));
  EXPECT_EQ(LaunchTimes().scatter(), 0);
}

TEST(RepeatClose, MeasuresInTurnsWhatIsCloseToTheFastest) {
  const std::vector<LaunchTimes> times = {times_of({100, 100, 100}), times_of({150, 150, 150}),
                                          times_of({102, 102, 102})};
  EXPECT_EQ(repeated(times, {{100}, {150}, {102}}), "ACAC") << "two percent are known after two";
}

TEST(RepeatClose, MeasuresNothingTwiceThatIsFarApart) {
  EXPECT_EQ(repeated({times_of({100, 101, 99}), times_of({110, 111, 109})}, {{100}, {110}}), "");
  EXPECT_EQ(repeated({times_of({100, 101, 99})}, {{100}}), "");
  EXPECT_EQ(repeated({}, {}), "");
}

TEST(RepeatClose, GoesOnWhileTheNumbersScatterAndThenStops) {
  const std::vector<LaunchTimes> scattered = {times_of({80, 100, 120}), times_of({81, 101, 121})};
  EXPECT_EQ(
      repeated(scattered, {{83, 86, 89, 92, 95, 98, 99, 99}, {82, 85, 88, 91, 94, 97, 99, 99}}),
      "ABABABABABABABAB");
  // From the second round on the numbers of both lie together.
  EXPECT_EQ(repeated({times_of({100, 100, 120}), times_of({101, 102, 102})}, {{100}, {102}}),
            "ABAB");
}

TEST(RepeatClose, StopsWhereNothingMoreMayBeMeasured) {
  std::vector<LaunchTimes> times = {times_of({100, 100, 100}), times_of({100, 100, 100})};
  int calls = 0;
  repeat_close(times, [&](size_t) { return ++calls < 3; });
  EXPECT_EQ(calls, 3);
}

// A candidate that fails while it is measured again has no numbers any more.
TEST(RepeatClose, LeavesOutWhatHasFailed) {
  std::vector<LaunchTimes> times = {times_of({100, 100, 100}), times_of({100, 100, 100}),
                                    times_of({100, 100, 100})};
  std::string order;
  repeat_close(times, [&](size_t i) {
    order += static_cast<char>('A' + i);
    if (i == 1) times[i] = {};
    return order.size() < 8;
  });
  EXPECT_EQ(order, "ABCABCAC");
}

TEST(Settled, EquallyFastCandidatesFollowTheirEstimates) {
  const std::vector<LaunchTimes> times = {times_of({101, 100, 102}), times_of({100, 99, 101}),
                                          times_of({140, 140, 140}), times_of({100, 100, 100})};
  const std::vector<double> ns = settled(times, {50, 70, 10, 0});
  EXPECT_EQ(ns[0], 99);
  EXPECT_EQ(ns[2], 140) << "its estimate is the smallest, but it is slower";
  EXPECT_GT(ns[1], ns[0]);
  EXPECT_GT(ns[3], ns[1]) << "an unknown estimate is the last";
  EXPECT_LT(ns[3], 99.001);
  // With other noise the order is the same.
  const std::vector<double> again =
      settled({times[1], times[0], times[2], times[3]}, {50, 70, 10, 0});
  EXPECT_EQ(ns, again);
}

TEST(Settled, WhatIsKnownToBeFasterIsFirstWhateverWasEstimated) {
  const std::vector<double> ns =
      settled({times_of({102, 102, 102, 102}), times_of({100, 100, 100, 100})}, {1, 1000});
  EXPECT_EQ(ns, (std::vector<double>{102, 100}));
}

TEST(Settled, AFewPercentCountOnlyWhereTheyWereMeasuredAgain) {
  const std::vector<double> ns =
      settled({times_of({102, 102, 102}), times_of({100, 100, 100})}, {1, 1000});
  EXPECT_LT(ns[0], ns[1]);
  EXPECT_EQ(ns[0], 100);
}

}  // namespace
}  // namespace runtime::exec
