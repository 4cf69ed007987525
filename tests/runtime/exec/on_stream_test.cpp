// Collectives on the streams of a device use no staging buffers and never block the host; a rank
// that does not arrive is detected nevertheless.
#include <gmock/gmock.h>

#include <cstdlib>

#include "runtime/exec/collectives.h"
#include "runtime/exec/program.h"
#include "runtime/graph/build.h"
#include "runtime/launch/device_offers.h"
#include "runtime/launch/key_value.h"
#include "runtime/launch/memory_store.h"
#include "tests/runtime/watch/ranks.h"

namespace runtime::exec {
namespace {

namespace host = plugins::host;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::Each;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int64_t kNumbers = 5;

// A rank on one of two devices. Its communicator 1 has no other rank.
struct Rank {
  Rank(const std::shared_ptr<host::Plugin>& plugin, int rank, int size, watch::JobBoard& board,
       std::chrono::nanoseconds timeout)
      : device(host::Device::open(host::Plugin::load(SIMULATED_PLUGIN, {}), rank % 2)),
        recorder(rank),
        watchdog(recorder, board, {.timeout = timeout}),
        job(host::Communicator::create(
            plugin, {.rank = rank, .world_size = size, .prefix = "test", .device = device})),
        collectives({job, job->split(rank, 0, std::chrono::seconds(30))}, rank, size, recorder,
                    watchdog, false) {}
  std::shared_ptr<host::Device> device;
  watch::FlightRecorder recorder;
  watch::Watchdog watchdog;
  std::shared_ptr<host::Communicator> job;
  Collectives collectives;
};

// An all-reduce in device memory, as programs have it.
struct Sum {
  explicit Sum(Rank& rank) : Sum(rank, rank.device) {}
  Sum(Rank& rank, const std::shared_ptr<host::Device>& device)
      : stream(device), memory(device->allocate(sizeof(float) * kNumbers)) {
    graph::Graph graph;
    const auto value = graph.add_value({.name = "x", .dtype = RT_FLOAT32, .dims = {kNumbers}});
    const auto pair = graph::make_collective(graph, RT_ALL_REDUCE, RT_SUM, 0, value, value);
    call = rank.collectives.prepare(graph, pair.start, device);
    call.collective.send = call.collective.receive = memory.data();
  }
  void set(float number) {
    const std::vector<float> numbers(kNumbers, number);
    stream.copy(memory.data(), numbers.data(), memory.bytes());
  }
  std::vector<float> get() {
    std::vector<float> numbers(kNumbers);
    stream.copy(numbers.data(), memory.data(), memory.bytes());
    stream.synchronize();
    return numbers;
  }
  host::Stream stream;
  host::Memory memory;
  CollectiveCall call;
};

std::vector<std::string> on_ranks(int size, const std::function<void(Rank&)>& body) {
  host::HostServices services;
  launch::offer_store(services, std::make_shared<launch::MemoryStore>(), "");
  const auto plugin = host::Plugin::load(STREAM_COMMUNICATOR, services);
  watch::SharedBoard board(size);
  std::vector<std::string> errors(size);
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      errors[r] = watch::message_of([&] {
        Rank rank(plugin, r, size, board, std::chrono::seconds(60));
        rank.watchdog.run([&] { body(rank); });
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(OnStream, TheHostWaitsForNothing) {
  std::atomic<bool> ahead = false;
  const auto errors = on_ranks(2, [&](Rank& rank) {
    Sum sum(rank);
    EXPECT_EQ(sum.call.access, Access::kStream);
    EXPECT_FALSE(sum.call.send_copy || sum.call.receive_copy) << "nothing is staged";
    EXPECT_FALSE(rank.collectives.access().stages(*rank.device));
    // Rank 1 starts no collective before rank 0 has queued all of its work.
    if (rank.collectives.rank() == 1) {
      EXPECT_TRUE(watch::becomes_true([&] { return ahead.load(); }));
    }
    for (int i = 0; i < 20; ++i) {
      sum.set(static_cast<float>(rank.collectives.rank() + 1));
      rank.collectives.start(sum.call, sum.stream);
      rank.collectives.wait(sum.call, sum.stream);
    }
    if (rank.collectives.rank() == 0) {
      EXPECT_LT(rank.recorder.completed(), 20u);
      ahead = true;
    }
    EXPECT_THAT(sum.get(), Each(3.0f));
    // The watchdog's thread detects that the collectives have completed.
    EXPECT_TRUE(watch::becomes_true([&] { return rank.recorder.completed() == 20; }));
    rank.collectives.start(sum.call, sum.stream);
    rank.collectives.wait(sum.call, sum.stream);
    sum.stream.synchronize();
    const CollectiveTimes times = rank.collectives.take_times();
    EXPECT_EQ(times.calls, 21);
    EXPECT_GT(times.exposed_ns[0], 0) << "what the device has waited for";
  });
  EXPECT_THAT(errors, Each(""));
}

// A recorded collective lies between the work before it and the wait for it, and nothing waits.
TEST(OnStream, CollectivesAreRecordedByEvents) {
  const auto errors = on_ranks(2, [](Rank& rank) {
    Sum sum(rank);
    SpanRecorder spans(sum.stream);
    spans.begin(1);
    rank.collectives.record(&spans);
    std::vector<SpanRecorder::Mark> marks;
    for (int i = 0; i < 3; ++i) {
      sum.set(1);
      marks.push_back(spans.mark(sum.stream));
      rank.collectives.start(sum.call, sum.stream);
      rank.collectives.wait(sum.call, sum.stream);
      marks.push_back(spans.mark(sum.stream));
      spans.add({}, marks[2 * i], marks[2 * i + 1]);  // what the program's stream sees
    }
    rank.collectives.record(nullptr);
    rank.collectives.start(sum.call, sum.stream);  // is not recorded
    rank.collectives.wait(sum.call, sum.stream);
    const std::vector<Span> all = spans.take();
    ASSERT_EQ(all.size(), 6u);
    for (size_t i = 0; i < 3; ++i) {
      const Span &collective = all[2 * i], &around = all[2 * i + 1];
      EXPECT_EQ(collective.kind, SpanKind::kCollective);
      EXPECT_EQ(collective.call, &sum.call);
      EXPECT_LE(around.begin_ns, collective.begin_ns);
      EXPECT_LE(collective.begin_ns, collective.end_ns);
      EXPECT_LE(collective.end_ns, around.end_ns);
    }
    sum.stream.synchronize();
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(OnStream, WhatTheHostSendsGoesThroughTheDevice) {
  const auto errors = on_ranks(3, [](Rank& rank) {
    Collectives& all = rank.collectives;
    double values[] = {1.0, static_cast<double>(all.rank())};
    all.all_reduce(values, 2, RT_SUM);
    EXPECT_THAT(values, testing::ElementsAre(3, 3));
    const auto own = static_cast<char>('a' + all.rank());
    std::string text(3, ' '), alone(1, ' ');
    all.all_gather(&own, text.data(), 1);
    EXPECT_EQ(text, "abc");
    all.all_gather(&own, alone.data(), 1, 1);
    EXPECT_EQ(alone[0], own);
    std::string said = all.rank() == 1 ? "here" : "....";
    all.broadcast(said.data(), said.size(), 1);
    EXPECT_EQ(said, "here");
    all.compare("item", {"a", "b"});
    EXPECT_THAT(watch::message_of([&] {
                  all.compare("item", {"a", std::to_string(all.rank())});
                }),
                HasSubstr("the ranks disagree on item 2"));
  });
  EXPECT_THAT(errors, Each(""));
}

// As with an MPI library that reads device memory: the host waits, but no staging buffer is used.
void expect_sums_by(const char* mode, Access access) {
  ::setenv("SIMULATED_COMM", mode, 1);
  const auto errors = on_ranks(2, [&](Rank& rank) {
    Sum sum(rank);
    EXPECT_EQ(sum.call.access, access);
    EXPECT_EQ(static_cast<bool>(sum.call.send_copy), access == Access::kStaged);
    sum.set(static_cast<float>(rank.collectives.rank() + 1));
    rank.collectives.start(sum.call, sum.stream);
    rank.collectives.wait(sum.call, sum.stream);
    EXPECT_THAT(sum.get(), Each(3.0f));
  });
  ::unsetenv("SIMULATED_COMM");
  EXPECT_THAT(errors, Each(""));
}

TEST(Probe, WhatIsRightIsBelieved) { expect_sums_by("both", Access::kDevice); }
TEST(Probe, WhatIsWrongIsStaged) { expect_sums_by("lies", Access::kStaged); }

// The plugin refuses calls in place, so the host sends copies.
void expect_separate_sums(const char* mode, Access access, const char* library = nullptr) {
  ::setenv("SIMULATED_COMM", mode, 1);
  const auto errors = on_ranks(2, [&](Rank& rank) {
    Collectives& all = rank.collectives;
    Sum sum(rank, library == nullptr ? rank.device
                                     : host::Device::open(host::Plugin::load(library, {}), 0));
    EXPECT_EQ(sum.call.access, access);
    EXPECT_FALSE(sum.call.in_place);
    for (int i = 0; i < 2; ++i) {
      sum.set(static_cast<float>(all.rank() + 1));
      all.start(sum.call, sum.stream);
      all.wait(sum.call, sum.stream);
      EXPECT_THAT(sum.get(), Each(3.0f));
    }
    double value = 1 + all.rank();
    all.all_reduce(&value, 1, RT_SUM);
    EXPECT_EQ(value, 3);
    value = all.rank();
    all.broadcast(&value, sizeof(value), 1);
    EXPECT_EQ(value, 1);
  });
  ::unsetenv("SIMULATED_COMM");
  EXPECT_THAT(errors, Each(""));
}

TEST(InPlace, IsReplacedByACopyOnAStream) { expect_separate_sums("separate", Access::kStream); }
TEST(InPlace, IsReplacedByACopyOnTheDevice) {
  expect_separate_sums("both separate", Access::kDevice);
}
TEST(InPlace, IsReplacedByACopyInHostMemory) {
  expect_separate_sums("both separate", Access::kHost, REFERENCE_PLUGIN);
}

// relu(sum of relu(x) over the ranks): the sum may have the memory of what is added.
TEST(InPlace, ProgramsShareMemoryOnlyIfThePluginDoes) {
  for (const bool shared : {true, false}) {
    ::setenv("SIMULATED_COMM", shared ? "" : "separate", 1);
    const auto errors = on_ranks(2, [&](Rank& rank) {
      graph::Graph graph;
      graph::Build build(graph);
      const auto x = graph.add_value("x", graph::ValueKind::kInput, {kNumbers}, RT_FLOAT32);
      const auto added = build.activation(x, RT_ACTIVATION_RELU);
      const auto sum = build.all_reduce(added, 0);
      const auto y = build.activation(sum, RT_ACTIVATION_RELU);
      graph.value(y).kind = graph::ValueKind::kOutput;
      Storage storage(rank.device);
      Arena arena(rank.device);
      Program program(graph, rank.device, storage, arena, {.collectives = &rank.collectives});
      EXPECT_EQ(program.address(added) == program.address(sum), shared);
      host::Stream stream(rank.device);
      std::vector<float> numbers(kNumbers, static_cast<float>(rank.collectives.rank() + 1));
      stream.copy(program.address(x), numbers.data(), sizeof(float) * kNumbers);
      program.run(stream);
      stream.copy(numbers.data(), program.address(y), sizeof(float) * kNumbers);
      stream.synchronize();
      EXPECT_THAT(numbers, Each(3.0f));
    });
    ::unsetenv("SIMULATED_COMM");
    EXPECT_THAT(errors, Each(""));
  }
}

// The rank waits for its stream, where no call checks a deadline.
TEST(OnStream, ARankThatDoesNotComeIsFound) {
  const watch::Folder folder;
  watch::SharedBoard board(2);
  watch::Processes ranks(1, folder.path(), [&](int) {
    host::HostServices services;
    const auto store = std::make_shared<launch::MemoryStore>();
    launch::offer_store(services, store, "");
    const auto plugin = host::Plugin::load(STREAM_COMMUNICATOR, services);
    std::jthread other([&] {  // this rank joins, then does nothing more
      const auto device = host::Device::open(host::Plugin::load(SIMULATED_PLUGIN, {}), 1);
      const auto job = host::Communicator::create(
          plugin, {.rank = 1, .world_size = 2, .prefix = "test", .device = device});
      job->split(1, 0, std::chrono::seconds(30));
    });
    Rank rank(plugin, 0, 2, board, milliseconds(200));
    rank.watchdog.run([&] {
      Sum sum(rank);
      rank.collectives.start(sum.call, sum.stream);
      rank.collectives.wait(sum.call, sum.stream);
      sum.stream.synchronize();
    });
  });
  EXPECT_EQ(ranks.exit_code(0), static_cast<int>(ExitCode::kCommunication));
  EXPECT_THAT(ranks.errors(0),
              HasSubstr("rank 1 of 2 is lost: it does not answer; all_reduce #1 (5 "
                        "float32) did not complete within 0.2 s, on rank 0"));
}

TEST(DeviceOffers, AllRanksNeedTheSameCommunicatorAndADeviceEach) {
  using launch::common_offer;
  EXPECT_EQ(common_offer({"nccl host gpu-1", "nccl host gpu-2"}), "nccl");
  EXPECT_EQ(common_offer({"nccl host gpu-1", "nccl other gpu-1"}), "nccl");
  EXPECT_EQ(common_offer({"nccl host gpu-1", "nccl host gpu-1"}), "") << "one device";
  EXPECT_EQ(common_offer({"nccl host gpu-1", ""}), "") << "a rank on the processor";
  EXPECT_EQ(common_offer({"nccl host gpu-1", "rccl host gpu-2"}), "");
  EXPECT_EQ(common_offer({}), "");
}

TEST(DeviceOffers, ARankOffersWhatReadsTheMemoryOfItsDevice) {
  const auto folder = [](const char* file) { return std::filesystem::path(file).parent_path(); };
  const host::Registry registry(
      host::SearchPath::standard({folder(SIMULATED_PLUGIN), folder(STREAM_COMMUNICATOR)}), {});
  config::Config config;
  config.device.backend = "simulated";  // without an index, ranks take its two devices in turn
  EXPECT_THAT(launch::device_offer(config, registry, 2, 3), EndsWith(" simulated:0"));
  EXPECT_THAT(launch::device_offer(config, registry, 1, 2),
              AllOf(StartsWith("simulated_comm "), EndsWith(" simulated:1")));
  config.device.index = {0, 7};
  EXPECT_EQ(launch::device_offer(config, registry, 1, 2), "") << "there is no such device";
  config.device.index = {0, 1};
  config.parallelism.update = "asynchronous";
  config.parallelism.max_staleness = 1;
  EXPECT_EQ(launch::device_offer(config, registry, 1, 2), "") << "it sends host memory";
}

}  // namespace
}  // namespace runtime::exec
