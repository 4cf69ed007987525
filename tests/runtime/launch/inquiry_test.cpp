// Checks that ranks that wait for long say for whom, once, and that the job goes on.
#include "runtime/watch/inquiry.h"

#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "runtime/launch/job_board.h"
#include "runtime/launch/memory_store.h"
#include "tests/runtime/watch/ranks.h"

namespace runtime::launch {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kWaiting = 4;

// The last rank does this while the others wait for it in an all-reduce.
using Last = std::function<void(watch::FlightRecorder&)>;

struct Outcome {
  std::string said;
  bool alarm = false;
};

// The others wait until all of them have begun, and then for `wait`.
Outcome run(std::chrono::nanoseconds hang, std::chrono::milliseconds wait, const Last& last,
            bool last_ends = false) {
  MemoryStore store;
  std::atomic<bool> over = false;
  testing::internal::CaptureStderr();
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kWaiting; ++rank)
      threads.emplace_back([&, rank] {
        watch::FlightRecorder recorder(rank);
        StoreJobBoard board(store, kWaiting, "run/");
        watch::Watchdog watchdog(recorder, board, {.timeout = 60s, .hang = hang});
        watchdog.run([&] {
          if (rank == kWaiting - 1) last(recorder);
          if (rank == kWaiting - 1 && last_ends) return;
          const uint64_t call = recorder.begin(watch::all_reduce());
          watch::becomes_true([&] { return watchdog.check(), over.load(); });
          recorder.end(call);
        });
      });
    std::this_thread::sleep_for(wait);
    over = true;
  }
  return {testing::internal::GetCapturedStderr(), StoreJobBoard(store, kWaiting, "run/").alarm()};
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Inquiry, ARankThatKeepsTheOthersWaitingIsNamedOnce) {
  const Outcome outcome = run(2s, 3s, [](auto&) { std::this_thread::sleep_for(3s); });
  EXPECT_THAT(
      outcome.said,
      AllOf(testing::StartsWith("warning: the ranks wait: rank 3 of 4 is stuck: it "
                                "answers, but has not taken part in all_reduce #1 (431080 "
                                "float32), for which rank"),
            HasSubstr("did not complete within 2 s"), HasSubstr("ranks 0, 1 and 2 wait for it"),
            HasSubstr("; the job ends if that lasts 60 s (comm.timeout_s)\n")));
  EXPECT_EQ(count_of(outcome.said, "warning: "), 1) << outcome.said;
  EXPECT_FALSE(outcome.alarm) << "the job must go on";
}

TEST(Inquiry, ComesAgainAfterTwiceTheTime) {
  const Outcome outcome = run(500ms, 2s, [](auto&) { std::this_thread::sleep_for(2s); });
  EXPECT_THAT(outcome.said, AllOf(HasSubstr("within 0.5 s"), HasSubstr("within 1 s")));
}

TEST(Inquiry, IsSilentWhileNobodyWaitsForLong) {
  const Outcome outcome = run(20s, 300ms, [](auto&) {});
  EXPECT_EQ(outcome.said, "");
  EXPECT_FALSE(outcome.alarm);
}

TEST(Inquiry, ARankThatHasFinishedIsNamed) {
  const Outcome outcome = run(
      500ms, 1s, [](auto&) {}, true);
  EXPECT_THAT(outcome.said,
              HasSubstr("rank 3 of 4 has finished without taking part in all_reduce #1"));
}

}  // namespace
}  // namespace runtime::launch
