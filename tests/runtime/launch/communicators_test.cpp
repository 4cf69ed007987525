// The choices of comm.backend = "auto" and device.backend = "auto", by what plugins say of
// themselves.
#include "runtime/launch/communicators.h"

#include <gtest/gtest.h>

#include "runtime/launch/open_device.h"

namespace runtime::launch {
namespace {

using plugins::host::PluginDescription;
using Plugins = std::vector<PluginDescription>;

PluginDescription communicator(const std::string& name, uint32_t ranks, int32_t priority) {
  PluginDescription p;
  p.name = name;
  p.communicator.emplace();
  p.communicator->ranks = ranks;
  p.communicator->priority = priority;
  return p;
}

std::string best(const Plugins& plugins, uint32_t ranks) {
  const PluginDescription* p = best_communicator(plugins, ranks);
  return p == nullptr ? "none" : p->name;
}

TEST(BestCommunicator, IsForTheKindOfRanks) {
  const Plugins all = {
      communicator("threads", RT_RANKS_THREADS, 1), communicator("slow", RT_RANKS_ANY_PROCESS, 1),
      communicator("fast", RT_RANKS_ANY_PROCESS, 2), communicator("same", RT_RANKS_ANY_PROCESS, 2),
      communicator("mpiexec", RT_RANKS_MPI, 1)};
  EXPECT_EQ(best(all, RT_RANKS_THREADS), "threads");
  EXPECT_EQ(best(all, RT_RANKS_MPI), "mpiexec");
  EXPECT_EQ(best(all, RT_RANKS_ANY_PROCESS), "fast");
}

TEST(BestCommunicator, IsOfTheOtherKindIfThereIsNone) {
  const Plugins any = {communicator("threads", RT_RANKS_THREADS, 1),
                       communicator("any", RT_RANKS_ANY_PROCESS, 1)};
  const Plugins mpi = {communicator("mpiexec", RT_RANKS_MPI, 1)};
  EXPECT_EQ(best(any, RT_RANKS_MPI), "any");
  EXPECT_EQ(best(mpi, RT_RANKS_ANY_PROCESS), "mpiexec");
  EXPECT_EQ(best(mpi, RT_RANKS_THREADS), "none");
}

// A plugin of a device says 0, as does one that is older than the field.
TEST(BestCommunicator, HasAPriority) {
  const Plugins unknown = {communicator("unknown", RT_RANKS_ANY_PROCESS, 0)};
  EXPECT_EQ(best(unknown, RT_RANKS_ANY_PROCESS), "none");
  EXPECT_EQ(best({}, RT_RANKS_ANY_PROCESS), "none");
}

TEST(ThreadFault, IsOfPluginsThatOneThreadMustCall) {
  PluginDescription threads = communicator("threads", RT_RANKS_THREADS, 1),
                    processes = communicator("processes", RT_RANKS_ANY_PROCESS, 1);
  config::Config config;
  EXPECT_EQ(thread_fault(threads, config, 2), "");
  for (PluginDescription* p : {&threads, &processes})
    p->communicator->flags = RT_COMM_SINGLE_THREAD;
  EXPECT_EQ(thread_fault(threads, config, 1), "");
  EXPECT_EQ(thread_fault(threads, config, 2),
            "the plugin must be called by one thread at a time, but its ranks are threads of one "
            "process");
  EXPECT_EQ(thread_fault(processes, config, 2), "");
  config.parallelism.update = "asynchronous";
  config.parallelism.max_staleness = 1;
  EXPECT_EQ(thread_fault(processes, config, 1), "");
  EXPECT_NE(thread_fault(processes, config, 2).find("parallelism.update = \"asynchronous\""),
            std::string::npos);
  processes.communicator->flags = RT_COMM_ABORT_WAKES;
  EXPECT_EQ(thread_fault(processes, config, 2), "");
}

TEST(LinkOf, IsWhatThePluginSays) {
  rt_comm_properties p{};
  p.latency_ns = 5000;
  p.bytes_per_second = 8'000'000'000;
  EXPECT_DOUBLE_EQ(link_of(p).latency_s, 5e-6);
  EXPECT_DOUBLE_EQ(link_of(p).bytes_per_second, 8e9);
  EXPECT_FALSE(link_of(p).in_background);
  p.flags = RT_COMM_BACKGROUND;
  EXPECT_TRUE(link_of(p).in_background);
}

TEST(LinkOf, IsAGuessForAnOlderPlugin) {
  const parallel::Link link = link_of({});
  EXPECT_DOUBLE_EQ(link.latency_s, parallel::kUnknownLink.latency_s);
  EXPECT_DOUBLE_EQ(link.bytes_per_second, parallel::kUnknownLink.bytes_per_second);
  EXPECT_TRUE(link.in_background);
}

struct TestDevice {
  int32_t priority;
  bool usable;
};

PluginDescription with_devices(const std::string& name, const std::vector<TestDevice>& devices) {
  PluginDescription p;
  p.name = name;
  p.interfaces = {RT_INTERFACE_DEVICE};
  for (const TestDevice& device : devices) {
    auto& info = p.devices.emplace_back();
    info.plugin = name;
    info.index = static_cast<int32_t>(p.devices.size()) - 1;
    info.properties.priority = device.priority;
    info.properties.flags = device.usable ? RT_DEVICE_USABLE : 0;
  }
  return p;
}

TEST(ByPriority, OrdersPluginsByTheBestUsableDevice) {
  const Plugins plugins = {with_devices("unknown", {{0, true}}),
                           with_devices("low", {{100, true}, {900, false}}),
                           with_devices("high", {{50, true}, {200, true}}),
                           with_devices("absent", {{400, false}}),
                           with_devices("zero", {{0, true}}),
                           with_devices("empty", {}),
                           communicator("no devices", RT_RANKS_THREADS, 1)};
  std::string names;
  for (const PluginDescription* p : by_priority(plugins)) names += p->name + " ";
  EXPECT_EQ(names, "empty absent high low unknown zero ");
}

}  // namespace
}  // namespace runtime::launch
