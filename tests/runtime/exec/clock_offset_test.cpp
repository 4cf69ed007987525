// The offset of a clock that is known to differ lies within the measured bounds.
#include "runtime/exec/clock_offset.h"

#include <gmock/gmock.h>

#include "tests/runtime/exec/local_ranks.h"

namespace runtime::exec {
namespace {

using testing::Each;

constexpr int64_t kAhead = 5'000'000'000;

int64_t ahead() { return SpanRecorder::now() + kAhead; }
int64_t behind() { return SpanRecorder::now() - kAhead; }

TEST(ClockOffset, OfClocksThatDiffer) {
  EXPECT_THAT(on_local_ranks(3,
                             [](LocalRank& r) {
                               int64_t (*const clocks[])() = {SpanRecorder::now, ahead, behind};
                               const int64_t expected[] = {0, kAhead, -kAhead};
                               const ClockOffset offset =
                                   measure_clock_offset(&r.collectives, clocks[r.rank]);
                               EXPECT_NEAR(static_cast<double>(offset.offset_ns),
                                           static_cast<double>(expected[r.rank]),
                                           static_cast<double>(offset.error_ns));
                               EXPECT_LT(offset.error_ns, kAhead) << "no bound";
                               EXPECT_EQ(offset.error_ns > 0, r.rank > 0);
                             }),
              Each(""));
}

TEST(ClockOffset, IsRelativeToRankZero) {
  EXPECT_THAT(on_local_ranks(2,
                             [](LocalRank& r) {
                               const ClockOffset offset = measure_clock_offset(
                                   &r.collectives, r.rank == 0 ? ahead : SpanRecorder::now);
                               EXPECT_NEAR(static_cast<double>(offset.offset_ns),
                                           r.rank == 0 ? 0.0 : -static_cast<double>(kAhead),
                                           static_cast<double>(offset.error_ns));
                             }),
              Each(""));
}

TEST(ClockOffset, RanksOfOneMachineHaveOneClock) {
  EXPECT_THAT(
      on_local_ranks(
          2, [](LocalRank& r) { EXPECT_EQ(measure_clock_offset(&r.collectives).offset_ns, 0); }),
      Each(""));
  EXPECT_EQ(measure_clock_offset(nullptr).error_ns, 0);
}

}  // namespace
}  // namespace runtime::exec
