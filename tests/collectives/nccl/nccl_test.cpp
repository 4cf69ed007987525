// Tests the plugin nccl with a simulated NCCL (tests/doubles). Ranks are threads, and their memory
// comes from the plugin cuda with a simulated CUDA runtime.
#include <gmock/gmock.h>

#include <barrier>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "plugins/conformance/communicator.h"
#include "plugins/host/communicator.h"

namespace collectives::nccl::testing {
namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kLong = 60s;  // reached only by a test that fails

// A stand-in in memory for the key-value store through which the ranks of a job exchange NCCL's id.
class Store {
 public:
  host::HostServices services() {
    host::HostServices s;
    s.kv_set = [this](const std::string& key, const std::string& value) {
      const std::lock_guard lock(mutex_);
      values_[key] = value;
      changed_.notify_all();
    };
    s.kv_get = [this](const std::string& key, std::chrono::nanoseconds timeout) {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, timeout, [&] { return values_.contains(key); }))
        throw host::Error(RT_ERROR_TIMEOUT, "no key " + key);
      return values_[key];
    };
    return s;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

struct Rank {
  std::shared_ptr<host::Communicator> communicator;
  std::shared_ptr<host::Device> device;
};

Rank join(const std::shared_ptr<host::Plugin>& plugin, int32_t rank, int32_t size,
          std::chrono::nanoseconds timeout = kLong) {
  auto device = host::Device::open(host::Plugin::load(CUDA_DOUBLE, {}), rank % 2);
  auto communicator = host::Communicator::create(
      plugin,
      {.rank = rank, .world_size = size, .prefix = "test", .device = device, .timeout = timeout});
  return {std::move(communicator), std::move(device)};
}

void on_ranks(int32_t size, const std::function<void(const Rank&, int32_t)>& body) {
  Store store;
  const auto plugin = host::Plugin::load(NCCL_DOUBLE, store.services());
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(join(plugin, rank, size), rank);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "rank " << rank << ": " << e.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

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

// Runs `body`, which must throw, and returns the error.
template <typename Body>
host::Error error_of(Body&& body) {
  try {
    body();
  } catch (const host::Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return host::Error(RT_OK, "");
}

TEST(NcclJoin, MissingRanksAreNamed) {
  Store store;
  const auto plugin = host::Plugin::load(NCCL_DOUBLE, store.services());
  const auto error = error_of([&] { join(plugin, 1, 4, 50ms); });
  EXPECT_EQ(error.code(), RT_ERROR_TIMEOUT);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1 of 4"), HasSubstr("in time: 0, 2, 3;")));
}

TEST(NcclJoin, HostMemoryIsRefused) {
  Store store;
  const auto plugin = host::Plugin::load(NCCL_DOUBLE, store.services());
  const auto error = error_of(
      [&] { host::Communicator::create(plugin, {.rank = 0, .world_size = 1, .prefix = "test"}); });
  EXPECT_EQ(error.code(), RT_ERROR_UNSUPPORTED);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("cuda devices only"), HasSubstr("gloo")));
}

// An all-reduce of one float in device memory.
struct Call {
  explicit Call(const Rank& rank) : memory(rank.device->allocate(sizeof(float))) {
    collective =
        host::make_collective(RT_ALL_REDUCE, RT_FLOAT32, memory.data(), memory.data(), 1, RT_SUM);
    collective.memory_kind = RT_MEMORY_DEVICE;
  }
  host::Memory memory;
  rt_collective collective;
};

TEST(NcclFailure, ARankThatDoesNotComeIsADeadline) {
  on_ranks(2, [](const Rank& it, int32_t rank) {
    if (rank == 1) return;
    Call call(it);
    host::Work work = it.communicator->enqueue(call.collective);
    const auto error = error_of([&] { work.wait(20ms); });
    EXPECT_EQ(error.code(), RT_ERROR_TIMEOUT);
    EXPECT_FALSE(work.poll());
  });
}

TEST(NcclFailure, AbortWakesWaiters) {
  on_ranks(2, [](const Rank& it, int32_t rank) {
    if (rank == 1) return;
    Call call(it);
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
    Call call(it);
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
