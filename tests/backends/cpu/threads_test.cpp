// The device works with the number of threads that was asked for; plans and devices may be used by
// several threads at the same time.
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "plugins/host/error.h"
#include "tests/backends/cpu/support.h"

namespace tests::cpu {
namespace {

std::set<std::string> threads_of_this_process() {
  std::set<std::string> threads;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    threads.insert(task.path().filename());
  return threads;
}

// The number of threads that a convolution (oneDNN) and an activation (own kernel) start on a
// device with that option: one team serves both. The kernel may list threads of an ended team for a
// moment, so their ids are compared, not their number.
int extra_threads(int32_t option, bool on_one_core = false) {
  int extra = -1;
  std::thread([&] {
    if (on_one_core) {
      cpu_set_t usable, one;
      ASSERT_EQ(sched_getaffinity(0, sizeof(usable), &usable), 0);
      CPU_ZERO(&one);
      for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (!CPU_ISSET(core, &usable)) continue;
        CPU_SET(core, &one);
        break;
      }
      ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    }
    const std::set<std::string> before = threads_of_this_process();
    const auto device = open({option, {}});
    const host::Operation op = convolution();
    run(*device, op, ramps(op));
    host::Operation activation;
    activation.name = RT_OP_ACTIVATION;
    activation.inputs = activation.outputs = {tensor({1 << 18})};
    activation.attributes = {{RT_ATTR_FUNCTION, int64_t{RT_ACTIVATION_TANH}}};
    run(*device, activation, {ramp(1 << 18)});
    extra = 0;
    for (const std::string& thread : threads_of_this_process()) extra += !before.contains(thread);
  }).join();
  return extra;
}

TEST(CpuThreads, OneMeansNoOther) { EXPECT_EQ(extra_threads(1), 0); }
TEST(CpuThreads, AsManyAsAskedFor) {
  setenv("OMP_DYNAMIC", "false", /*overwrite=*/1);
  EXPECT_EQ(extra_threads(2), 1);
  EXPECT_EQ(extra_threads(4), 3);
  EXPECT_EQ(extra_threads(2, /*on_one_core=*/true), 1);
  unsetenv("OMP_DYNAMIC");
}
TEST(CpuThreads, NoMoreThanProcessors) { EXPECT_EQ(extra_threads(4, /*on_one_core=*/true), 0); }
TEST(CpuThreads, NoneGivenMeansTheUsableCores) {
  EXPECT_EQ(extra_threads(0, /*on_one_core=*/true), 0);
}

TEST(CpuThreads, RefusesNegativeNumbers) {
  try {
    open({-1, {}});
    FAIL() << "opened";
  } catch (const host::Error& e) {
    EXPECT_EQ(e.code(), RT_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(e.what()).find("-1 threads; expected 1 to"), std::string::npos)
        << e.what();
  }
}

TEST(CpuThreads, OnePlanLaunchedFromTwoThreads) {
  const auto device = open({2, {}});
  const host::Operation op = convolution(12, 20);
  host::Kernel kernel = device->create_kernel(op);
  const std::vector<Floats> first = ramps(op), second = {ramp(count(op.inputs[0]), 7), first[1]};
  const Floats expected[2] = {run(*device, op, first), run(*device, op, second)};
  const auto repeat = [&](const std::vector<Floats>& inputs, const Floats& right) {
    host::Stream stream = device->create_stream();
    for (int i = 0; i < 20; ++i) {
      const Buffers buffers(*device, op, kernel, inputs);
      kernel.launch(stream, buffers.launch());
      ASSERT_EQ(buffers.output(0), right);
    }
  };
  std::thread other([&] { repeat(first, expected[0]); });
  repeat(second, expected[1]);
  other.join();
}

TEST(CpuThreads, RanksAsThreadsWithDevicesOfTheirOwn) {
  const host::Operation op = convolution(12, 20);
  const Floats expected = run(*open({2, {}}), op, ramps(op));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&] {
      const auto device = open({2, {}});
      for (int i = 0; i < 5; ++i) EXPECT_EQ(run(*device, op, ramps(op)), expected);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace tests::cpu
