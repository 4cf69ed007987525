// Ranks as threads that share one instance of the plugin.
#ifndef TESTS_COLLECTIVES_LOCAL_RANKS_H_
#define TESTS_COLLECTIVES_LOCAL_RANKS_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "plugins/host/communicator.h"

namespace collectives::local::testing {

namespace host = plugins::host;
using CommunicatorPtr = std::shared_ptr<host::Communicator>;
inline constexpr auto kLong = std::chrono::seconds(60);  // reached only by a test that fails

inline CommunicatorPtr join(const std::shared_ptr<host::Plugin>& plugin, int32_t rank, int32_t size,
                            std::chrono::nanoseconds timeout = kLong,
                            std::shared_ptr<host::Device> device = nullptr) {
  return host::Communicator::create(plugin, {.rank = rank,
                                             .world_size = size,
                                             .prefix = "test",
                                             .device = std::move(device),
                                             .timeout = timeout});
}

// Runs `body` on `size` ranks; an exception of one rank fails the test.
inline void on_ranks(int32_t size, const std::function<void(CommunicatorPtr, int32_t)>& body) {
  const auto plugin = host::Plugin::load(LOCAL_PLUGIN, {});
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

// The error that `call` throws; fails the test if it throws none.
inline host::Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const host::Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {RT_OK, ""};
}

}  // namespace collectives::local::testing

#endif  // TESTS_COLLECTIVES_LOCAL_RANKS_H_
