// Checks that waits for a core are counted.
#include "runtime/system/core_waits.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

namespace runtime::system {
namespace {

// Two threads that only one core may run: each waits while the other one runs.
TEST(CoreWaits, GrowWhereThreadsShareACore) {
  if (!std::filesystem::exists("/proc/self/schedstat")) GTEST_SKIP() << "the kernel does not count";
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  int core = 0;
  while (!CPU_ISSET(core, &before)) ++core;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  CoreWaits waits;
  std::atomic<bool> stop = false;
  std::thread other([&] {  // it inherits the core
    while (!stop) {
    }
  });
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool grows = false;
  while (!grows && std::chrono::steady_clock::now() < patience)
    grows = waits.waited() > std::chrono::milliseconds(1);
  stop = true;
  other.join();
  EXPECT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_TRUE(grows);
}

}  // namespace
}  // namespace runtime::system
