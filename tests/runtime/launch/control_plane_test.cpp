// Counts what ranks ask of the store of their job: nothing while all is well, and once a rank fails
// some requests for each rank, not for each pair of ranks.
#include <gmock/gmock.h>

#include <atomic>
#include <barrier>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/launch/job_board.h"
#include "runtime/launch/memory_store.h"
#include "runtime/watch/ask_pace.h"
#include "tests/runtime/watch/ranks.h"

namespace runtime::launch {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class CountingStore : public MemoryStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    ++messages_;
    MemoryStore::set(key, value);
  }
  std::optional<std::string> try_get(const std::string& key) override {
    ++messages_;
    return MemoryStore::try_get(key);
  }
  int taken() { return messages_.exchange(0); }

 private:
  std::atomic<int> messages_ = 0;
};

struct Ended {
  int at_start = 0, idle = 0, at_the_end = 0;  // messages of all ranks
  int saying = 0;                              // ranks with the whole message
  std::string said = {};
};

constexpr const char* kOwnError = "the loss is nan";

// Ranks that wait for a collective until rank `ranks / 2` fails, or does not answer.
class Job {
 public:
  Job(int ranks, bool answers) : ranks_(ranks), fails_(ranks / 2), answers_(answers) {}

  Ended run() {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks_; ++rank)
      if (rank != fails_ || answers_) threads.emplace_back([this, rank] { live(rank); });
    all_.arrive_and_wait();
    std::this_thread::sleep_for(100ms);
    ended_.at_start = store_.taken();
    std::this_thread::sleep_for(300ms);
    ended_.idle = store_.taken();
    all_.arrive_and_wait();
    threads.clear();
    ended_.at_the_end = store_.taken();
    return ended_;
  }

 private:
  void live(int rank) {
    watch::FlightRecorder recorder(rank);
    StoreJobBoard board(store_, ranks_, "run/");
    watch::Watchdog watchdog(
        recorder, board,
        {.timeout = 60s, .hang = 30s, .run_folder = folder_.path(), .told = watch::Told::kNothing});
    all_.arrive_and_wait();
    all_.arrive_and_wait();
    try {
      watchdog.run([&] { work(rank, recorder, watchdog); });
    } catch (const ToldError&) {
    } catch (const std::exception& error) {
      if (error.what() == std::string(kOwnError)) return;
      const std::lock_guard lock(mutex_);
      ++ended_.saying;
      ended_.said = error.what();
    }
  }

  void work(int rank, watch::FlightRecorder& recorder, watch::Watchdog& watchdog) const {
    if (rank == fails_) throw NumericError(kOwnError);
    recorder.begin(watch::all_reduce());
    if (!answers_ && rank == (fails_ + 1) % ranks_) watchdog.fail("connection closed", fails_);
    watch::becomes_true([&] { return watchdog.check(), false; });
  }

  const int ranks_, fails_;
  const bool answers_;
  const watch::Folder folder_;
  CountingStore store_;
  std::barrier<> all_{ranks_ + (answers_ ? 1 : 0)};
  std::mutex mutex_;
  Ended ended_;
};

void expect_few_messages(int ranks, bool answers, const std::string& words) {
  SCOPED_TRACE(ranks);
  const Ended ended = Job(ranks, answers).run();
  std::printf("%3d ranks, one %s: %d messages at the start, %d idle, %d at the end\n", ranks,
              answers ? "fails" : "does not answer", ended.at_start, ended.idle, ended.at_the_end);
  EXPECT_LE(ended.at_start, 2 * ranks);  // one for each bell: of alarms, and of long waits
  EXPECT_EQ(ended.idle, 0);
  EXPECT_LE(ended.at_the_end, 8 * ranks * watch::doublings(ranks) + 32);
  EXPECT_EQ(ended.saying, 1);
  EXPECT_THAT(ended.said, HasSubstr("rank " + std::to_string(ranks / 2) + " of " +
                                    std::to_string(ranks) + words));
}

TEST(ControlPlane, ARankThatFailsIsToldInFewMessages) {
  for (const int ranks : {2, 8, 32, 64})
    expect_few_messages(ranks, true, std::string(" ended with: ") + kOwnError);
}

TEST(ControlPlane, ARankThatDoesNotAnswerIsToldInFewMessages) {
  for (const int ranks : {2, 8, 32, 64}) expect_few_messages(ranks, false, " is lost");
}

}  // namespace
}  // namespace runtime::launch
