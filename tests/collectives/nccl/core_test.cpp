// Tests runtime::exec::Collectives with the plugins cuda and nccl, built with simulated versions of
// the CUDA runtime and of NCCL (tests/doubles).
#include <gmock/gmock.h>

#include <thread>

#include "runtime/exec/collectives.h"
#include "runtime/launch/key_value.h"
#include "runtime/launch/memory_store.h"
#include "tests/runtime/watch/ranks.h"

namespace runtime::exec {
namespace {

namespace host = plugins::host;
using testing::Each;

struct Rank {
  Collectives& collectives;
  std::shared_ptr<host::Device> device;
};

std::vector<std::string> on_ranks(int size, const std::function<void(Rank)>& body) {
  host::HostServices services;
  launch::offer_store(services, std::make_shared<launch::MemoryStore>(), "");
  const auto plugin = host::Plugin::load(NCCL_DOUBLE, services);
  watch::SharedBoard board(size);
  std::vector<std::string> errors(size);
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      errors[r] = watch::message_of([&] {
        watch::FlightRecorder recorder(r);
        watch::Watchdog watchdog(recorder, board, {.timeout = std::chrono::seconds(60)});
        const auto device = host::Device::open(host::Plugin::load(CUDA_DOUBLE, {}), r % 2);
        const auto job = host::Communicator::create(
            plugin, {.rank = r, .world_size = size, .prefix = "test", .device = device});
        Collectives collectives({job}, r, size, recorder, watchdog, false);
        watchdog.run([&] { body({collectives, device}); });
        EXPECT_TRUE(
            watch::becomes_true([&] { return recorder.completed() == recorder.started(); }));
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(NcclCore, WhatTheHostSendsGoesThroughTheDevice) {
  const auto errors = on_ranks(2, [](Rank rank) {
    EXPECT_FALSE(rank.collectives.access().reads_host());
    double value = rank.collectives.rank() + 1;
    rank.collectives.all_reduce(&value, 1, RT_SUM);
    EXPECT_EQ(value, 3);
    rank.collectives.compare("item", {"the same"});
  });
  EXPECT_THAT(errors, Each(""));
}

// Sums, and messages in both directions, use no staging buffer in host memory.
TEST(NcclCore, ProgramsSendFromTheDevice) {
  const auto errors = on_ranks(2, [](Rank rank) {
    const int peer = 1 - rank.collectives.rank();
    host::Stream stream(rank.device);
    const host::Memory memory = rank.device->allocate(sizeof(float));
    const auto call = [&](int32_t kind, int32_t reduction) {
      graph::Graph graph;
      const auto value = graph.add_value({.name = "x", .dtype = RT_FLOAT32, .dims = {1}});
      graph::CollectivePair pair = graph::make_collective(graph, kind, reduction, 0, value, value);
      if (kind == RT_RECEIVE) pair.start.inputs = {};
      if (kind == RT_SEND) pair.start.outputs = {};
      if (kind != RT_ALL_REDUCE) pair.start.collective->peer = peer;
      CollectiveCall made = rank.collectives.prepare(graph, pair.start, rank.device);
      made.collective.send = made.collective.receive = memory.data();
      EXPECT_EQ(made.access, Access::kStream);
      return made;
    };
    CollectiveCall sum = call(RT_ALL_REDUCE, RT_SUM), send = call(RT_SEND, 0),
                   receive = call(RT_RECEIVE, 0);
    EXPECT_NE(send.stream, receive.stream) << "they must not wait for each other";
    const auto run = [&](CollectiveCall& made) {
      rank.collectives.start(made, stream);
      rank.collectives.wait(made, stream);
    };
    float number = static_cast<float>(rank.collectives.rank() + 1);
    stream.copy(memory.data(), &number, sizeof(number));
    run(sum);  // 3 on both ranks
    number = 0;
    rank.collectives.rank() == 0 ? run(send) : run(receive);
    stream.copy(&number, memory.data(), sizeof(number));
    stream.synchronize();
    EXPECT_EQ(number, 3);
  });
  EXPECT_THAT(errors, Each(""));
}

}  // namespace
}  // namespace runtime::exec
