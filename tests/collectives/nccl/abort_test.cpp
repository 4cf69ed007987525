// Tests that a thread may abort a communicator of the plugin nccl while another one is in a call.
// The simulated NCCL (tests/doubles) ends the process if a call uses what abort has freed. These
// tests are apart from nccl_test, so that they also run with ThreadSanitizer.
#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <thread>

#include "tests/collectives/nccl/ranks.h"

namespace collectives::nccl::testing {
namespace {

// Every call of NCCL takes 300 us, and the aborts come at different times within a call.
class NcclAbort : public ::testing::Test {
 protected:
  NcclAbort() { ::setenv("NCCL_DOUBLE_SLOW", "300", 1); }
  ~NcclAbort() override { ::unsetenv("NCCL_DOUBLE_SLOW"); }

  static constexpr std::chrono::microseconds kDelays[] = {0us, 150us, 400us, 700us};

  // Aborts a rank that is alone while it starts the collective.
  static void abort_during(int32_t kind) {
    for (const auto delay : kDelays) {
      on_ranks(1, [&](const Rank& it, int32_t) {
        Call call(it, kind, kind == RT_BROADCAST || kind == RT_REDUCE ? 0 : -1);
        abort_while(it, delay, [&] { it.communicator->enqueue(call.collective); });
      });
    }
  }
};

TEST_F(NcclAbort, DuringACollective) {
  for (const int32_t kind : {RT_ALL_REDUCE, RT_REDUCE_SCATTER, RT_ALL_GATHER, RT_BROADCAST,
                             RT_REDUCE, RT_ALL_TO_ALL, RT_BARRIER})
    abort_during(kind);
}

TEST_F(NcclAbort, DuringAGroup) {
  for (const auto delay : kDelays) {
    on_ranks(1, [&](const Rank& it, int32_t) {
      Call sum(it, RT_ALL_REDUCE), all(it, RT_ALL_TO_ALL);
      abort_while(it, delay, [&] {
        host::CommunicatorGroup group(it.communicator);
        const host::Work first = it.communicator->enqueue(sum.collective),
                         second = it.communicator->enqueue(all.collective);
        group.end();
      });
    });
  }
}

TEST_F(NcclAbort, DuringASplit) {
  for (const auto delay : kDelays) {
    on_ranks(1, [&](const Rank& it, int32_t) {
      abort_while(it, delay, [&] { it.communicator->split(0, 0, kLong); });
    });
  }
}

// The memory of the calls must outlive those of the other rank.
TEST_F(NcclAbort, DuringSendsAndReceives) {
  for (const auto delay : kDelays) {
    std::barrier both(2);
    on_ranks(2, [&](const Rank& it, int32_t rank) {
      Call call(it, rank == 0 ? RT_SEND : RT_RECEIVE, 1 - rank);
      abort_while(it, delay, [&] { it.communicator->enqueue(call.collective); });
      both.arrive_and_wait();
    });
  }
}

// The other rank does not come, so that the first send waits for the pair to join.
TEST_F(NcclAbort, WhileAPairJoins) {
  on_ranks(2, [](const Rank& it, int32_t rank) {
    if (rank == 1) return;
    Call call(it, RT_SEND, 1);
    std::thread other([&] {
      std::this_thread::sleep_for(20ms);
      it.communicator->abort();
    });
    const auto error = error_of([&] { it.communicator->enqueue(call.collective); });
    EXPECT_EQ(error.code(), RT_ERROR_ABORTED) << error.what();
    other.join();
  });
}

// The other rank does not split, so that NCCL could still write the new communicator later.
TEST_F(NcclAbort, WhileOtherRanksDoNotSplit) {
  on_ranks(2, [](const Rank& it, int32_t rank) {
    if (rank == 1) return;
    std::thread other([&] {
      std::this_thread::sleep_for(20ms);
      it.communicator->abort();
    });
    const auto error = error_of([&] { it.communicator->split(0, 0, kLong); });
    EXPECT_EQ(error.code(), RT_ERROR_ABORTED) << error.what();
    other.join();
  });
}

}  // namespace
}  // namespace collectives::nccl::testing
