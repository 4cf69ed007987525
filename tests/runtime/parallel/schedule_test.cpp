// Checks orders, memory and bubbles of pipeline schedules against closed forms.
#include "runtime/parallel/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "runtime/error.h"

namespace runtime::parallel {
namespace {

const auto* const kGpipe = schedule_kind("gpipe");
const auto* const k1f1b = schedule_kind("1f1b");
const auto* const kInterleaved = schedule_kind("interleaved");

StageTimes equal_times(int stages, double forward = 1, double backward = 2) {
  return {std::vector<double>(stages, forward), std::vector<double>(stages, backward), {}, {}};
}

std::vector<ScheduleOptions> all_options() {
  std::vector<ScheduleOptions> list;
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (int m = 1; m <= 10; ++m) {
      list.push_back({kGpipe, ranks, m});
      list.push_back({k1f1b, ranks, m});
      for (int chunks : {2, 3}) {
        if (m % ranks == 0) list.push_back({kInterleaved, ranks, m, chunks});
        list.push_back({kInterleaved, ranks, m, chunks, false});
      }
    }
  }
  return list;
}

std::string message(const ScheduleOptions& options) {
  try {
    make_schedule(options);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

// simulate() checks that every slot can be computed when its inputs are there.
TEST(Schedule, EverySlotOccursOnceAndNobodyWaitsForEver) {
  for (const ScheduleOptions& o : all_options()) {
    const Schedule s = make_schedule(o);
    ASSERT_EQ(s.slots.size(), static_cast<size_t>(o.ranks));
    for (const std::vector<Slot>& slots : s.slots) {
      std::set<std::tuple<bool, int, int>> seen;
      for (const Slot& slot : slots) {
        EXPECT_TRUE(seen.emplace(slot.backward, slot.chunk, slot.micro_batch).second);
        EXPECT_LT(slot.chunk, o.chunks);
        EXPECT_LT(slot.micro_batch, o.micro_batches);
      }
      EXPECT_EQ(seen.size(),
                static_cast<size_t>((o.backward ? 2 : 1) * o.chunks * o.micro_batches));
    }
    EXPECT_NO_THROW(simulate(s, equal_times(s.stages())));
  }
}

TEST(Schedule, ASlotBeginsWhenWhatItNeedsHasArrived) {
  for (const ScheduleOptions& o : all_options()) {
    const Schedule s = make_schedule(o);
    StageTimes times = equal_times(s.stages());
    times.send_forward.assign(s.stages(), 0.25);
    times.send_backward.assign(s.stages(), 0.5);
    const Timeline t = simulate(s, times);
    std::map<std::tuple<bool, int, int>, double> ends;
    for (int r = 0; r < o.ranks; ++r) {
      for (size_t k = 0; k < t.end[r].size(); ++k) {
        const Slot& slot = s.slots[r][k];
        ends[{slot.backward, slot.chunk * o.ranks + r, slot.micro_batch}] = t.end[r][k];
      }
    }
    const double forward_gap = o.ranks > 1 ? 1.25 : 1, backward_gap = o.ranks > 1 ? 2.5 : 2;
    for (const auto& [key, end] : ends) {
      const auto [backward, stage, micro_batch] = key;
      double earliest = 0;
      const auto after = [&](bool of_backward, int of_stage, double gap) {
        earliest = std::max(earliest, ends.at({of_backward, of_stage, micro_batch}) + gap);
      };
      if (!backward && stage > 0) after(false, stage - 1, forward_gap);
      if (backward) after(false, stage, 2);
      if (backward && stage + 1 < s.stages()) after(true, stage + 1, backward_gap);
      EXPECT_GE(end, earliest);
    }
  }
}

TEST(Schedule, MicroBatchesOfAChunkAscend) {
  for (const ScheduleOptions& o : all_options()) {
    for (const std::vector<Slot>& slots : make_schedule(o).slots) {
      std::map<std::pair<bool, int>, int> next;
      for (const Slot& slot : slots)
        EXPECT_EQ(slot.micro_batch, (next[{slot.backward, slot.chunk}]++));
    }
  }
}

TEST(Schedule, OneForwardOneBackwardOfTwoRanks) {
  const Schedule s = make_schedule({k1f1b, 2, 3});
  const std::vector<Slot> first = {{false, 0, 0}, {false, 0, 1}, {true, 0, 0},
                                   {false, 0, 2}, {true, 0, 1},  {true, 0, 2}};
  const std::vector<Slot> second = {{false, 0, 0}, {true, 0, 0},  {false, 0, 1},
                                    {true, 0, 1},  {false, 0, 2}, {true, 0, 2}};
  EXPECT_EQ(s.slots[0], first);
  EXPECT_EQ(s.slots[1], second);
}

TEST(Schedule, OneForwardOneBackwardKeepsAsManyMicroBatchesAsStagesFollow) {
  for (int ranks = 1; ranks <= 6; ++ranks) {
    for (int m = 1; m <= 9; ++m) {
      const Schedule gpipe = make_schedule({kGpipe, ranks, m});
      const Schedule one = make_schedule({k1f1b, ranks, m});
      for (int r = 0; r < ranks; ++r) {
        EXPECT_EQ(peak_in_flight(gpipe.slots[r]), m);
        EXPECT_EQ(peak_in_flight(one.slots[r]), std::min(m, ranks - r));
      }
    }
  }
}

// Megatron-LM, section 2.2: a warm-up of 2 (p - r - 1) + (v - 1) p forward slots, and the next one.
TEST(Schedule, InterleavedKeepsAFewMore) {
  const Schedule s = make_schedule({kInterleaved, 4, 8, 2});
  for (int r = 0; r < 4; ++r) EXPECT_EQ(peak_in_flight(s.slots[r]), 2 * (3 - r) + 4 + 1) << r;
  EXPECT_EQ(peak_in_flight(s.slots[3], 0) + peak_in_flight(s.slots[3], 1), 6);
}

TEST(Schedule, BubbleIsThatOfTheClosedForms) {
  for (int p = 1; p <= 5; ++p) {
    for (int m = p; m <= 4 * p; m += p) {
      const double plain = (p - 1.0) / (m + p - 1);
      EXPECT_NEAR(simulate(make_schedule({kGpipe, p, m}), equal_times(p)).bubble, plain, 1e-12);
      EXPECT_NEAR(simulate(make_schedule({k1f1b, p, m}), equal_times(p)).bubble, plain, 1e-12);
      for (int v : {2, 3}) {
        const Timeline t = simulate(make_schedule({kInterleaved, p, m, v}), equal_times(p * v));
        EXPECT_NEAR(t.bubble, (p - 1.0) / (v * m + p - 1), 1e-12) << p << ' ' << m << ' ' << v;
        EXPECT_NEAR(t.seconds, 3 * (v * m + p - 1), 1e-9);
      }
    }
  }
}

TEST(Schedule, ASlowStageAndTransfersCostTime) {
  const Schedule s = make_schedule({k1f1b, 2, 4});
  StageTimes times = equal_times(2);
  times.forward[1] = 2;
  times.backward[1] = 4;
  // Stage 1 computes without a pause between its first forward slot and the last backward slot of
  // stage 0.
  EXPECT_NEAR(simulate(s, times).seconds, 1 + 4 * 6 + 2, 1e-12);
  times.send_forward = {0.5, 0};
  times.send_backward = {0, 0.25};
  EXPECT_NEAR(simulate(s, times).seconds, 1 + 0.5 + 4 * 6 + 0.25 + 2, 1e-12);
}

TEST(Schedule, RefusalsNameTheNearestNumbers) {
  EXPECT_NE(message({kInterleaved, 4, 6, 2}).find("the nearest are 4 and 8"), std::string::npos);
  EXPECT_NE(message({kInterleaved, 4, 3, 2}).find("the nearest is 4"), std::string::npos);
  EXPECT_NE(message({kInterleaved, 4, 4, 1}).find("at least 2 stages a rank"), std::string::npos);
  EXPECT_NE(message({k1f1b, 4, 4, 2}).find("1 stage a rank, got 2"), std::string::npos);
  EXPECT_NE(message({kGpipe, 2, 0}).find("at least 1"), std::string::npos);
}

}  // namespace
}  // namespace runtime::parallel
