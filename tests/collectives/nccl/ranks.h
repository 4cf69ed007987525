// What the tests of the plugin nccl share: ranks as threads, with memory from the plugin cuda. The
// paths of the two plugins are NCCL_PLUGIN and CUDA_PLUGIN.
#ifndef TESTS_COLLECTIVES_NCCL_RANKS_H_
#define TESTS_COLLECTIVES_NCCL_RANKS_H_

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "plugins/host/communicator.h"

namespace collectives::nccl::testing {

namespace host = plugins::host;
using namespace std::chrono_literals;

constexpr auto kLong = 60s;  // reached only by a test that fails

// RUNTIME_TEST_PLUGINS names the folder of the plugins, for a build that was moved.
inline std::shared_ptr<host::Plugin> load(const std::filesystem::path& built,
                                          const host::HostServices& services = {}) {
  const char* const folder = std::getenv("RUNTIME_TEST_PLUGINS");
  return host::Plugin::load(folder == nullptr ? built : folder / built.filename(), services);
}

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

inline Rank join(const std::shared_ptr<host::Plugin>& plugin, int32_t rank, int32_t size,
                 std::chrono::nanoseconds timeout = kLong) {
  auto device = host::Device::open(load(CUDA_PLUGIN), rank % 2);
  auto communicator = host::Communicator::create(
      plugin,
      {.rank = rank, .world_size = size, .prefix = "test", .device = device, .timeout = timeout});
  return {std::move(communicator), std::move(device)};
}

inline void on_ranks(int32_t size, const std::function<void(const Rank&, int32_t)>& body) {
  Store store;
  const auto plugin = load(NCCL_PLUGIN, store.services());
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

// A collective of one float, or of one for each rank, in device memory.
struct Call {
  Call(const Rank& rank, int32_t kind, int32_t peer = -1)
      : sent(rank.device->allocate(kBytes)), received(rank.device->allocate(kBytes)) {
    const bool reduces = kind == RT_ALL_REDUCE || kind == RT_REDUCE_SCATTER || kind == RT_REDUCE;
    collective = host::make_collective(kind, RT_FLOAT32, sent.data(), received.data(), 1,
                                       reduces ? RT_SUM : 0);
    collective.memory_kind = RT_MEMORY_DEVICE;
    collective.peer = peer;
  }
  static constexpr uint64_t kBytes = 64;
  host::Memory sent, received;
  rt_collective collective;
};

// Calls `call` again and again. Another thread aborts the communicator `delay` after the third call
// has begun; the calls must then end with RT_ERROR_ABORTED.
inline void abort_while(const Rank& rank, std::chrono::microseconds delay,
                        const std::function<void()>& call) {
  std::atomic<int> begun = 0;
  std::thread other([&] {
    while (begun < 3) std::this_thread::yield();
    std::this_thread::sleep_for(delay);
    rank.communicator->abort();
  });
  const auto error = error_of([&] {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < kLong) {
      ++begun;
      call();
    }
  });
  begun = 3;  // in case that the calls failed before
  other.join();
  EXPECT_EQ(error.code(), RT_ERROR_ABORTED) << error.what();
}

}  // namespace collectives::nccl::testing

#endif  // TESTS_COLLECTIVES_NCCL_RANKS_H_
