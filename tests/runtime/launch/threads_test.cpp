// Checks ranks as threads, and which of their errors is the cause.
#include "runtime/launch/threads.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "plugins/host/error.h"
#include "runtime/error.h"

namespace runtime::launch {
namespace {

// A wait that another thread can end, like the wait for a collective.
class Waiting {
 public:
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return aborted_ > 0; });
    throw CommunicationError("aborted");
  }
  void abort() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++aborted_;
    changed_.notify_all();
  }
  int aborted() const { return aborted_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int aborted_ = 0;
};

std::string error_of(int ranks, const std::function<void(int)>& body, Waiting& waiting) {
  try {
    run_rank_threads({ranks, body, [&] { waiting.abort(); }});
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

TEST(RankThreadsTest, EveryRankRunsInAThreadOfItsOwn) {
  std::mutex mutex;
  std::set<int> ranks;
  std::set<std::thread::id> threads = {std::this_thread::get_id()};
  int aborts = 0;
  const auto body = [&](int rank) {
    const std::lock_guard<std::mutex> lock(mutex);
    ranks.insert(rank);
    threads.insert(std::this_thread::get_id());
  };
  run_rank_threads({5, body, [&] { ++aborts; }});
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(threads.size(), 6);
  EXPECT_EQ(aborts, 0);
}

TEST(RankThreadsTest, TheFirstErrorEndsTheOthersOnce) {
  Waiting waiting;
  const auto body = [&](int rank) {
    if (rank == 1) throw DeviceError("rank 1 is out of memory");
    waiting.wait();
  };
  EXPECT_EQ(error_of(4, body, waiting), "rank 1 is out of memory");
  EXPECT_EQ(waiting.aborted(), 1);
}

// Rank 1 fails; while its stack unwinds, rank 0 already notices that rank 1 is gone.
TEST(RankThreadsTest, AConsequenceThatComesFirstHidesNoCause) {
  Waiting waiting;
  const auto body = [&](int rank) {
    if (rank == 0) throw CommunicationError("rank 1 is gone");
    try {
      waiting.wait();
    } catch (const CommunicationError&) {
    }
    throw DeviceError("the cause");
  };
  EXPECT_EQ(error_of(2, body, waiting), "the cause");
  EXPECT_EQ(waiting.aborted(), 1);
}

TEST(RankThreadsTest, APluginsErrorOfCommunicationIsAConsequenceToo) {
  Waiting waiting;
  const auto body = [&](int rank) {
    if (rank == 0) throw plugins::host::Error(RT_ERROR_TIMEOUT, "all_reduce: timeout");
    try {
      waiting.wait();
    } catch (const CommunicationError&) {
    }
    throw plugins::host::Error(RT_ERROR_INTERNAL, "the cause");
  };
  EXPECT_EQ(error_of(2, body, waiting), "the cause");
}

TEST(RankThreadsTest, AloneACommunicationErrorIsTheCause) {
  Waiting waiting;
  const auto body = [&](int rank) {
    if (rank == 2) throw CommunicationError("timeout");
    waiting.wait();
  };
  EXPECT_EQ(error_of(3, body, waiting), "timeout");
}

}  // namespace
}  // namespace runtime::launch
