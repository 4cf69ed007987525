// A team runs each part of a region once, at the same time as the others, and keeps its threads.
#include "backends/cpu/team/team.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cpu/parallel.h"
#include "backends/cpu/team/processors.h"

namespace tests::cpu {
namespace {

using backends::cpu::parallel_parts;
using backends::cpu::Processor;
using backends::cpu::processors_of_this_thread;
using backends::cpu::run_parts;
using backends::cpu::sort_for_threads;
using backends::cpu::Team;

auto threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// Runs body(part, parts) in parts that may meet.
template <typename Body>
void run_together(Team& team, int parts, Body body) {
  team.run_together(
      parts, [](void* data) { (*static_cast<Body*>(data))(Team::part(), Team::parts()); }, &body);
}

// How often each of `parts` parts was run in one region.
std::vector<int> runs_of(Team& team, int parts, bool together) {
  std::vector<int> runs(static_cast<size_t>(parts));
  if (together) {
    run_together(team, parts, [&](int part, int all) {
      EXPECT_EQ(all, parts);
      ++runs[static_cast<size_t>(part)];
    });
  } else {
    run_parts(parts, [&](int part) { ++runs[static_cast<size_t>(part)]; });
  }
  return runs;
}

std::vector<int> once(int parts) { return std::vector<int>(static_cast<size_t>(parts), 1); }

TEST(Team, RunsEachPartOnce) {
  Team team(5);
  const Team::Use use(team);
  for (int round = 0; round < 500; ++round) {
    const int parts = 1 + round * 7 % 5;
    ASSERT_EQ(runs_of(team, parts, round % 2 == 0), once(parts)) << round;
    ASSERT_EQ(runs_of(team, 5 + parts, false), once(5 + parts)) << round;
  }
}

TEST(Team, WakesThreadsThatSleep) {
  Team team(3);
  const Team::Use use(team);
  for (const bool together : {true, false, true}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_EQ(runs_of(team, 3, together), once(3));
  }
}

TEST(Team, KeepsItsThreadsInSmallerRegions) {
  const auto before = threads_of_this_process();
  Team team(4);
  const Team::Use use(team);
  for (const int parts : {4, 2, 1, 3, 4}) {
    runs_of(team, parts, true);
    EXPECT_EQ(threads_of_this_process(), before + 3) << parts;
  }
}

std::atomic<bool> held = false, let_go = false;

void hold(int) {
  held = true;
  while (!let_go) {
  }
}

// A signal holds the other thread, as a scheduler would that gives its processor to another
// process.
TEST(Team, TheFirstThreadDoesWhatALateOneHasNotBegun) {
  Team team(2);
  const Team::Use use(team);
  pid_t other = 0;
  run_together(team, 2, [&](int part, int) {
    if (part == 1) other = gettid();
  });
  std::signal(SIGUSR1, hold);
  ASSERT_EQ(tgkill(getpid(), other, SIGUSR1), 0);
  while (!held) std::this_thread::yield();
  EXPECT_EQ(runs_of(team, 2, false), once(2));
  EXPECT_EQ(runs_of(team, 6, false), once(6));
  let_go = true;
  for (int round = 0; round < 100; ++round) {
    ASSERT_EQ(runs_of(team, 2, round % 2 == 0), once(2));
  }
  std::signal(SIGUSR1, SIG_DFL);
}

TEST(Team, StartsNoThreadBeforeItIsUsed) {
  const auto before = threads_of_this_process();
  const Team team(4);
  EXPECT_EQ(threads_of_this_process(), before);
}

// Each round a part writes its number, and reads that of its neighbour after the meeting.
TEST(Team, APartSeesAfterAMeetingWhatTheOthersWroteBefore) {
  Team team(4);
  const Team::Use use(team);
  std::vector<int> written(4);
  std::atomic<int> wrong = 0;
  run_together(team, 4, [&](int part, int parts) {
    for (int round = 0; round < 500; ++round) {
      written[static_cast<size_t>(part)] = round * parts + part;
      Team::meet();
      const int next = (part + 1) % parts;
      wrong += written[static_cast<size_t>(next)] != round * parts + next;
      Team::meet();
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Team, ARegionInARegionIsRunByItsThreadAlone) {
  Team team(3);
  const Team::Use use(team);
  std::atomic<int> inner = 0;
  run_together(team, 3, [&](int part, int) {
    run_together(team, 3, [&](int own, int parts) {
      Team::meet();
      inner += own == 0 && parts == 1;
    });
    const auto thread = std::this_thread::get_id();
    run_parts(4, [&](int) { inner += std::this_thread::get_id() == thread; });
    EXPECT_TRUE(Team::in_region());
    EXPECT_EQ(Team::part(), part);
    EXPECT_EQ(Team::parts(), 3);
  });
  EXPECT_EQ(inner, 3 + 3 * 4);
  EXPECT_FALSE(Team::in_region());
  EXPECT_EQ(Team::parts(), 1);
}

TEST(Team, AThreadWithoutATeamComputesAlone) {
  ASSERT_EQ(Team::current(), nullptr);
  std::vector<int> parts;
  run_parts(4, [&](int part) { parts.push_back(part); });
  EXPECT_EQ(parts, (std::vector<int>{0, 1, 2, 3}));
  Team::meet();
}

TEST(Team, RegionsOfSeveralCallersFollowEachOther) {
  Team team(3);
  std::atomic<int> inside = 0, most = 0, done = 0;
  const auto repeat = [&] {
    const Team::Use use(team);
    for (int round = 0; round < 200; ++round) {
      run_together(team, 3, [&](int, int) {
        const int now = ++inside;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        ++done;
        Team::meet();
        --inside;
      });
    }
  };
  std::thread other(repeat);
  repeat();
  other.join();
  EXPECT_EQ(done, 2 * 200 * 3);
  EXPECT_LE(most, 3);
}

TEST(Processors, OneNodeIsFilledBeforeTheNextAndCoresBeforeTheirSecondThreads) {
  // Two nodes with two cores each; processors 4 to 7 are the second hardware threads.
  std::vector<Processor> all = {{0, 1, 0}, {1, 0, 0}, {2, 0, 0}, {3, 1, 0},
                                {4, 1, 1}, {5, 0, 1}, {6, 0, 1}, {7, 1, 1}};
  sort_for_threads(all);
  std::vector<int> numbers;
  for (const Processor& processor : all) numbers.push_back(processor.number);
  EXPECT_EQ(numbers, (std::vector<int>{1, 2, 5, 6, 0, 3, 4, 7}));
}

TEST(Processors, AreThoseOfTheThread) {
  cpu_set_t usable;
  ASSERT_EQ(sched_getaffinity(0, sizeof(usable), &usable), 0);
  const auto processors = processors_of_this_thread();
  EXPECT_EQ(static_cast<int>(processors.size()), CPU_COUNT(&usable));
  for (const Processor& processor : processors) EXPECT_TRUE(CPU_ISSET(processor.number, &usable));
}

TEST(Team, PinsTheOtherThreadsToOneProcessorEach) {
  const auto processors = processors_of_this_thread();
  Team team(2, /*pins=*/true);
  const Team::Use use(team);
  std::atomic<int> pinned = -1, own = 0;
  run_together(team, 2, [&](int part, int) {
    const auto now = processors_of_this_thread();
    if (part == 0) own = static_cast<int>(now.size());
    if (part == 1 && now.size() == 1) pinned = now[0].number;
  });
  EXPECT_EQ(own, static_cast<int>(processors.size()));
  EXPECT_EQ(pinned, processors[1 % processors.size()].number);
}

// The ranges that parallel_parts() makes, in the order of their parts.
std::vector<std::pair<int64_t, int64_t>> ranges(int threads, int64_t count, int64_t grain,
                                                int64_t multiple) {
  std::vector<std::pair<int64_t, int64_t>> all;
  parallel_parts(threads, count, grain, multiple,
                 [&](int, int64_t begin, int64_t end) { all.emplace_back(begin, end); });
  return all;
}

TEST(ParallelParts, AThreadGetsAtLeastHalfOfTheGrain) {
  using Ranges = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(ranges(16, 99, 100, 1), (Ranges{{0, 99}}));
  EXPECT_EQ(ranges(16, 100, 100, 1), (Ranges{{0, 50}, {50, 100}}));
  EXPECT_EQ(ranges(2, 1000, 100, 1), (Ranges{{0, 500}, {500, 1000}}));
  EXPECT_EQ(ranges(16, 160, 100, 1), (Ranges{{0, 53}, {53, 106}, {106, 160}}));
  EXPECT_EQ(ranges(3, 100, 1, 64), (Ranges{{0, 64}, {64, 100}}));
  EXPECT_EQ(ranges(16, 10'000, 100, 1).size(), 16U);
  EXPECT_EQ(ranges(16, 1, 1, 1), (Ranges{{0, 1}}));
  EXPECT_TRUE(ranges(16, 0, 0, 1).empty());
}

// Without a team of its own the loop makes the same ranges, one after the other.
TEST(ParallelParts, TheRangesDependOnTheNumbersAlone) {
  const auto alone = ranges(5, 12'345, 1000, 8);
  Team team(5);
  const Team::Use use(team);
  std::vector<std::pair<int64_t, int64_t>> together(5);
  parallel_parts(5, 12'345, 1000, 8, [&](int part, int64_t begin, int64_t end) {
    together[static_cast<size_t>(part)] = {begin, end};
  });
  EXPECT_EQ(alone, together);
}

}  // namespace
}  // namespace tests::cpu
