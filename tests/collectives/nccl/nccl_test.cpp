// Tests the plugin nccl with a simulated NCCL (tests/doubles). Ranks are threads, and their memory
// comes from the plugin cuda with a simulated CUDA runtime.
#include <gmock/gmock.h>

#include <barrier>
#include <cstdlib>
#include <thread>

#include "plugins/conformance/communicator.h"
#include "tests/collectives/nccl/ranks.h"

namespace collectives::nccl::testing {
namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;
using ::testing::AllOf;
using ::testing::HasSubstr;

class NcclConformance : public ::testing::TestWithParam<int32_t> {};

TEST_P(NcclConformance, InDeviceMemory) {
  const int32_t size = GetParam();
  on_ranks(size, [&](const Rank& it, int32_t rank) {
    const conformance::Summary summary = run_communicator_cases(
        {it.communicator, rank, size, it.device}, conformance::communicator_cases());
    EXPECT_EQ(summary.failed, 0) << summary.text();
    EXPECT_GT(summary.passed, 100) << summary.text();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclConformance, ::testing::Values(1, 2, 3, 4));

TEST(NcclJoin, MissingRanksAreNamed) {
  Store store;
  const auto plugin = load(NCCL_PLUGIN, store.services());
  const auto error = error_of([&] { join(plugin, 1, 4, 50ms); });
  EXPECT_EQ(error.code(), RT_ERROR_TIMEOUT);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1 of 4"), HasSubstr("in time: 0, 2, 3;")));
}

TEST(NcclJoin, HostMemoryIsRefused) {
  Store store;
  const auto plugin = load(NCCL_PLUGIN, store.services());
  const auto error = error_of(
      [&] { host::Communicator::create(plugin, {.rank = 0, .world_size = 1, .prefix = "test"}); });
  EXPECT_EQ(error.code(), RT_ERROR_UNSUPPORTED);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("cuda devices only"), HasSubstr("gloo")));
}

TEST(NcclFailure, ARankThatDoesNotComeIsADeadline) {
  on_ranks(2, [](const Rank& it, int32_t rank) {
    if (rank == 1) return;
    Call call(it, RT_ALL_REDUCE);
    host::Work work = it.communicator->enqueue(call.collective);
    const auto error = error_of([&] { work.wait(20ms); });
    EXPECT_EQ(error.code(), RT_ERROR_TIMEOUT);
    EXPECT_FALSE(work.poll());
  });
}

TEST(NcclFailure, AbortWakesWaiters) {
  on_ranks(2, [](const Rank& it, int32_t rank) {
    if (rank == 1) return;
    Call call(it, RT_ALL_REDUCE);
    host::Work work = it.communicator->enqueue(call.collective);
    std::thread other([&] {
      std::this_thread::sleep_for(20ms);
      it.communicator->abort();
    });
    EXPECT_EQ(error_of([&] { work.wait(kLong); }).code(), RT_ERROR_ABORTED);
    other.join();
    EXPECT_EQ(error_of([&] { it.communicator->enqueue(call.collective); }).code(),
              RT_ERROR_ABORTED);
  });
}

TEST(NcclFailure, AnAsynchronousErrorReachesWaitersAndLaterCalls) {
  ::setenv("NCCL_DOUBLE_FAIL", "2", 1);
  // Both ranks complete their first all-reduce before either starts the second, whose error would
  // otherwise also end a first one that a rank still waits for.
  std::barrier both(2);
  on_ranks(2, [&](const Rank& it, int32_t) {
    Call call(it, RT_ALL_REDUCE);
    it.communicator->enqueue(call.collective).wait(kLong);
    both.arrive_and_wait();
    const auto error = error_of([&] { it.communicator->enqueue(call.collective).wait(kLong); });
    EXPECT_EQ(error.code(), RT_ERROR_COMMUNICATION);
    EXPECT_THAT(error.what(), HasSubstr("remote process exited"));
    EXPECT_TRUE(it.communicator->asynchronous_error().has_value());
  });
  ::unsetenv("NCCL_DOUBLE_FAIL");
}

}  // namespace
}  // namespace collectives::nccl::testing
