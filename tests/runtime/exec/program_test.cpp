// Checks results, recordings, packing and errors of programs on several devices.
#include "runtime/exec/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "plugins/host/error.h"
#include "runtime/exec/placement.h"
#include "runtime/graph/autodiff.h"
#include "tests/runtime/support/compile.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::exec {
namespace {

using graph::Build;
using graph::Graph;
using graph::Phase;
using graph::ValueId;
using graph::ValueKind;
using test::GraphRun;
using test::Numbers;

// The loss and gradients of a small network with every kind of saved data.
struct Example {
  Graph graph;
  std::map<ValueId, Numbers> given;
  std::vector<ValueId> outputs;

  Example() {
    Build build(graph);
    const auto value = [&](const char* name, ValueKind kind, const graph::Dims& dims) {
      const ValueId v = test::add_value(graph, name, kind, dims, RT_FLOAT32);
      given[v] = test::random_numbers(graph::element_count(dims), given.size() + 1);
      return v;
    };
    const ValueId x = value("x", ValueKind::kInput, {4, 8, 8, 3});
    const ValueId w = value("w", ValueKind::kParameter, {6, 3, 3, 3});
    const ValueId gamma = value("gamma", ValueKind::kParameter, {6});
    const ValueId beta = value("beta", ValueKind::kParameter, {6});
    const ValueId mean = value("mean", ValueKind::kState, {6});
    const ValueId var = value("var", ValueKind::kState, {6});
    const ValueId fc = value("fc", ValueKind::kParameter, {5, 54});
    const ValueId one = value("one", ValueKind::kState, {1});
    const ValueId h = build.batch_norm(build.conv2d(x, w, {}), gamma, beta, mean, var, 1e-5, 0.1);
    const ValueId p =
        build.max_pool2d(build.activation(h, RT_ACTIVATION_RELU), {2, 2, 2, 2, {}, true});
    const ValueId y = build.matmul(graph.reshape(p, {4, 54}), fc, false, true);
    const ValueId loss = build.square_sum(build.softmax(y));
    for (const auto& [v, g] : graph::differentiate(graph, loss, one, {w, gamma, beta, fc}))
      outputs.push_back(test::add_output(graph, g, "d" + graph.value(v).name));
    outputs.push_back(test::add_output(graph, loss, "loss"));
    outputs.push_back(mean);
  }

  std::vector<Numbers> run_on(const std::shared_ptr<plugins::host::Device>& device) {
    GraphRun run(graph, device);
    for (const auto& [v, numbers] : given) run.set(v, numbers);
    run.run();
    run.run();  // the results must not depend on what an earlier run left in the arena
    std::vector<Numbers> results;
    for (ValueId v : outputs) results.push_back(run.get(v));
    return results;
  }
};

TEST(Program, TheSimulatedAcceleratorGivesTheSameNumbers) {
  Example example;
  const auto expected = example.run_on(test::open_device("reference"));
  for (int index : {0, 1}) {
    EXPECT_EQ(example.run_on(test::open_device(
                  "simulated", {{"poison", "true"}, {"max_delay_us", "200"}}, index)),
              expected);
  }
}

// Runs a program that records: the first run launches, the second records, and all later runs
// replay.
struct RecordedRuns {
  RecordedRuns(const Example& example, std::map<std::string, std::string> options)
      : device(test::open_device("simulated", std::move(options))),
        program(example.graph, device, storage, arena, {.record = true}) {
    for (const auto& [v, numbers] : example.given) {
      const std::vector<float> floats(numbers.begin(), numbers.end());
      stream.copy(program.address(v), floats.data(), floats.size() * sizeof(float));
    }
    stream.synchronize();
  }
  std::vector<float> run(ValueId output) {
    program.run(stream);
    std::vector<float> result(graph::element_count(program.graph().value(output).dims));
    stream.copy(result.data(), program.address(output), result.size() * sizeof(float));
    stream.synchronize();
    return result;
  }
  std::shared_ptr<plugins::host::Device> device;
  Storage storage{device};
  Arena arena{device};
  plugins::host::Stream stream = device->create_stream();
  Program program;
};

TEST(Program, ReplaysWhatTheSecondRunRecorded) {
  Example example;
  RecordedRuns runs(example, {{"poison", "true"}, {"max_delay_us", "50"}});
  const ValueId loss = example.outputs.rbegin()[1], mean = example.outputs.back();
  const auto launched = runs.run(loss);
  EXPECT_EQ(runs.program.recorded().operations, 0u);
  EXPECT_EQ(runs.run(loss), launched);
  const Recorded recorded = runs.program.recorded();
  EXPECT_EQ(recorded.operations, runs.program.graph().nodes.size());
  EXPECT_EQ(recorded.recordings, 1u);
  const auto before = runs.run(mean);
  EXPECT_NE(runs.run(mean), before);  // a running mean changes only if the replay has run
  EXPECT_EQ(runs.run(loss), launched);
  // Repeats the same number of runs without recording.
  std::vector<Numbers> expected;
  GraphRun plain(example.graph, test::open_device("reference"));
  for (const auto& [v, numbers] : example.given) plain.set(v, numbers);
  for (int i = 0; i < 6; ++i) plain.run();
  const auto last = runs.run(mean);
  EXPECT_EQ(Numbers(last.begin(), last.end()), plain.get(mean));
}

// What is written before the first run must reach it.
TEST(Program, APlannedProgramKnowsItsAddressesOnceItHasMemory) {
  const auto device = test::open_device("reference");
  Storage storage(device, true);
  Arena arena(device, true);
  Example example;
  Program program(example.graph, device, storage, arena, {});
  const auto [id, numbers] =
      *std::find_if(example.given.begin(), example.given.end(), [&](const auto& given) {
        return example.graph.value(given.first).kind == ValueKind::kParameter;
      });
  EXPECT_EQ(program.address(id), nullptr);
  storage.materialise();
  EXPECT_EQ(program.address(id), storage.find(example.graph.value(id).name));
  EXPECT_NE(program.address(id), nullptr);
}

TEST(Program, LaunchesWhatCannotBeRecorded) {
  Example example;
  RecordedRuns runs(example, {{"refuse_capture", "matmul"}});
  const ValueId loss = example.outputs.rbegin()[1];
  const auto launched = runs.run(loss);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(runs.run(loss), launched);
  EXPECT_EQ(runs.program.recorded().operations, 0u);
}

// y = x packed(w); with `update` the program also subtracts 1 from w.
class PackedTest : public testing::Test {
 protected:
  Graph make(bool update) {
    Graph g;
    Build build(g);
    const ValueId x = test::add_value(g, "x", ValueKind::kInput, {2, 2}, RT_FLOAT32);
    const ValueId w = test::add_value(g, "w", ValueKind::kParameter, {2, 2}, RT_FLOAT32);
    const ValueId packed = test::add_value(g, "w#1", ValueKind::kPacked, {2, 2}, RT_FLOAT32);
    build.phase = Phase::kPack;
    build.node_into(RT_OP_COPY, {w}, {packed});
    build.phase = Phase::kForward;
    const ValueId y = build.matmul(x, packed);
    g.value(y).kind = ValueKind::kOutput;
    if (update) {
      build.phase = Phase::kUpdate;
      build.node_into(RT_OP_SCALE, {w}, {w}, {{RT_ATTR_ALPHA, 1.0}, {RT_ATTR_BETA, -1.0}});
    }
    x_ = x;
    w_ = w;
    y_ = y;
    return g;
  }
  void set(Program& p, ValueId id, std::vector<float> numbers) {
    stream_.copy(p.address(id), numbers.data(), numbers.size() * sizeof(float));
    stream_.synchronize();
  }
  // Runs with x = identity, so that y is the packed weight.
  std::vector<float> run(Program& p) {
    set(p, x_, {1, 0, 0, 1});
    p.run(stream_);
    std::vector<float> y(4);
    stream_.copy(y.data(), p.address(y_), 4 * sizeof(float));
    stream_.synchronize();
    return y;
  }

  explicit PackedTest(const std::string& backend = "reference")
      : device_(test::open_device(backend)) {}

  std::shared_ptr<plugins::host::Device> device_;
  plugins::host::Stream stream_ = device_->create_stream();
  Storage storage_{device_};
  Arena arena_{device_};
  ValueId x_ = 0, w_ = 0, y_ = 0;
};

using Floats = std::vector<float>;

TEST_F(PackedTest, EvaluationDoesNotPackAgain) {
  Program evaluation(make(false), device_, storage_, arena_);
  set(evaluation, w_, {1, 2, 3, 4});
  EXPECT_EQ(run(evaluation), (Floats{1, 2, 3, 4}));
  set(evaluation, w_, {5, 6, 7, 8});  // without parameters_changed()
  EXPECT_EQ(run(evaluation), (Floats{1, 2, 3, 4}));
  storage_.parameters_changed();
  EXPECT_EQ(run(evaluation), (Floats{5, 6, 7, 8}));
}

TEST_F(PackedTest, EveryUpdateIsSeenByEveryProgram) {
  Program training(make(true), device_, storage_, arena_);
  Program evaluation(make(false), device_, storage_, arena_);
  set(training, w_, {10, 20, 30, 40});
  EXPECT_EQ(run(training), (Floats{10, 20, 30, 40}));
  EXPECT_EQ(run(training), (Floats{9, 19, 29, 39}));
  EXPECT_EQ(run(evaluation), (Floats{8, 18, 28, 38}));
  EXPECT_EQ(run(evaluation), (Floats{8, 18, 28, 38}));
  EXPECT_EQ(run(training), (Floats{8, 18, 28, 38}));
  EXPECT_EQ(run(evaluation), (Floats{7, 17, 27, 37}));
}

// Two parameters, each with a packed copy of which another copy is made. The update changes `w`; it
// writes the packed copy of `w` too, but another value, so that a test sees who has written it.
class PackedByUpdateTest : public PackedTest {
 protected:
  Graph make(bool update) {
    Graph g;
    Build build(g);
    for (const std::string name : {"w", "frozen"}) {
      const ValueId from = test::add_value(g, name, ValueKind::kParameter, {2}, RT_FLOAT32);
      const ValueId packed = test::add_value(g, name + "#1", ValueKind::kPacked, {2}, RT_FLOAT32);
      const ValueId again = test::add_value(g, name + "#2", ValueKind::kPacked, {2}, RT_FLOAT32);
      build.phase = Phase::kPack;
      build.node_into(RT_OP_COPY, {from}, {packed});
      build.node_into(RT_OP_COPY, {packed}, {again});
      build.phase = Phase::kForward;
      const ValueId y = build.add(packed, again);
      g.value(y).kind = ValueKind::kOutput;
      (name == "w" ? w_ : frozen_) = from;
      (name == "w" ? y_ : y_of_frozen_) = y;
      if (name != "w" || !update) continue;
      build.phase = Phase::kUpdate;
      build.node_into(RT_OP_SCALE, {from}, {from}, {{RT_ATTR_ALPHA, 1.0}, {RT_ATTR_BETA, -1.0}});
      build.node_into(RT_OP_SCALE, {from}, {packed}, {{RT_ATTR_ALPHA, 1.0}, {RT_ATTR_BETA, 0.5}});
    }
    return g;
  }
  std::vector<float> get(Program& p, ValueId id) {
    std::vector<float> numbers(2);
    stream_.copy(numbers.data(), p.address(id), 2 * sizeof(float));
    stream_.synchronize();
    return numbers;
  }
  // Runs; the sums of the two copies of `w`, then those of the frozen parameter.
  std::vector<float> run(Program& p) {
    p.run(stream_);
    std::vector<float> all = get(p, y_);
    const std::vector<float> more = get(p, y_of_frozen_);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  ValueId frozen_ = 0, y_of_frozen_ = 0;
};

TEST_F(PackedByUpdateTest, OnlyWhatTheUpdateHasNotWrittenIsPackedAgain) {
  Program training(make(true), device_, storage_, arena_);
  Program evaluation(make(false), device_, storage_, arena_);
  set(training, w_, {10, 20});
  set(training, frozen_, {1, 2});
  EXPECT_EQ(run(training), (Floats{20, 40, 2, 4}));
  set(training, frozen_, {7, 7});  // without parameters_changed()
  EXPECT_EQ(run(evaluation), (Floats{19, 39, 2, 4})) << "9 and 19, and 0.5 that the update added";
  EXPECT_EQ(run(training), (Floats{19, 39, 2, 4}));
  EXPECT_EQ(run(training), (Floats{17, 37, 2, 4}));
  storage_.parameters_changed();
  EXPECT_EQ(run(evaluation), (Floats{14, 34, 14, 14})) << "all copies are those of the parameters";
}

// Packing is not part of the recordings.
class RecordedPackedTest : public PackedTest {
 protected:
  RecordedPackedTest() : PackedTest("simulated") {}
};

TEST_F(RecordedPackedTest, EveryUpdateIsSeenByEveryProgram) {
  Program training(make(true), device_, storage_, arena_, {.record = true});
  Program evaluation(make(false), device_, storage_, arena_, {.record = true});
  set(training, w_, {10, 20, 30, 40});
  for (float i = 0; i < 3; ++i) {
    EXPECT_EQ(run(training), (Floats{10 - i, 20 - i, 30 - i, 40 - i}));
    EXPECT_EQ(run(evaluation), (Floats{9 - i, 19 - i, 29 - i, 39 - i}));
    EXPECT_EQ(run(evaluation), (Floats{9 - i, 19 - i, 29 - i, 39 - i}));
  }
  EXPECT_EQ(training.recorded().operations, 2u);
  EXPECT_EQ(evaluation.recorded().operations, 1u);
}

Graph doubled(int64_t count, ValueId* in, ValueId* out) {
  Graph g;
  Build build(g);
  *in = test::add_value(g, "in", ValueKind::kInput, {count}, RT_FLOAT64);
  *out = build.scale(build.scale(*in, 2), 3);
  g.value(*out).kind = ValueKind::kOutput;
  return g;
}

TEST(Program, AsksForDeterministicKernels) {
  const auto device = test::open_device("simulated", {{"varying", "scale"}});
  Storage storage(device);
  Arena arena(device);
  ValueId in = 0, out = 0;
  Program any(doubled(10, &in, &out), device, storage, arena);
  EXPECT_EQ(any.kernel(0).info().flags & RT_PLAN_DETERMINISTIC, 0u);
  const std::string refusal = test::message_of<plugins::host::Error>([&] {
    Program same(doubled(10, &in, &out), device, storage, arena, {{.deterministic = true}});
  });
  EXPECT_NE(refusal.find("scale: "), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("a deterministic scale; the option 'varying' forbids it"),
            std::string::npos)
      << refusal;
}

TEST(Program, NamesTheLayerOfALaunchThatFails) {
  const auto device = test::open_device("simulated", {{"refuse_launch", "scale"}});
  Storage storage(device);
  Arena arena(device);
  ValueId in = 0, out = 0;
  Graph graph = doubled(10, &in, &out);
  for (graph::Node& node : graph.nodes) node.layer = "the layer";
  Program program(std::move(graph), device, storage, arena);
  plugins::host::Stream stream = device->create_stream();
  const std::string error = test::message_of<plugins::host::Error>([&] { program.run(stream); });
  EXPECT_EQ(error.find("layer 'the layer', scale: "), 0u) << error;
  EXPECT_NE(error.find("refuse_launch"), std::string::npos) << error;
}

TEST(Program, ALargerProgramMovesTheArenaOfASmallerOne) {
  const auto device = test::open_device("simulated", {{"poison", "true"}});
  Storage storage(device);
  Arena arena(device);
  ValueId in = 0, out = 0;
  plugins::host::Stream stream = device->create_stream();
  Program small(doubled(10, &in, &out), device, storage, arena, {.record = true});
  const auto check = [&](Program& p, size_t count) {
    const Numbers numbers = test::random_numbers(count, 1);
    Numbers result(count);
    stream.copy(p.address(in), numbers.data(), count * 8);
    p.run(stream);
    stream.copy(result.data(), p.address(out), count * 8);
    stream.synchronize();
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(result[i], 6 * numbers[i]);
  };
  for (int i = 0; i < 3; ++i) check(small, 10);
  EXPECT_EQ(small.recorded().operations, 2u);
  const uint64_t before = arena.bytes();
  Program large(doubled(100000, &in, &out), device, storage, arena);
  EXPECT_GT(arena.bytes(), before);
  check(large, 100000);
  for (int i = 0; i < 3; ++i) check(small, 10);  // the arena has moved since its first recording
  check(large, 100000);
}

TEST(Program, TellsWhereTheMemoryGoes) {
  const auto device = test::open_device("reference");
  Storage storage(device);
  Arena arena(device);
  Example example;
  const test::Compiled c =
      test::compile(example.graph, device, storage, arena, {{.tune = Tune::kOff}});
  const MemoryReport& m = c.program->memory();
  EXPECT_EQ(m.parameters, 4u * (6 * 27 + 6 + 6 + 5 * 54));
  EXPECT_EQ(m.gradients_and_state, 4u * (6 + 6 + 1));
  EXPECT_EQ(m.packed, 0u);
  EXPECT_GE(m.arena, m.lower_bound);
  EXPECT_GT(m.lower_bound, 0u);
  EXPECT_LE(m.arena, arena.bytes());
  for (const BufferInfo& b : m.buffers) {
    EXPECT_TRUE(is_persistent(b.kind) || b.offset + b.bytes <= m.arena) << b.name;
  }
}

// A forward operation saves data for a backward operation that this program does not have.
TEST(Program, SavedDataThatNobodyReadsHasAPlace) {
  Graph g;
  Build build(g);
  const ValueId x = test::add_value(g, "x", ValueKind::kInput, {1, 2, 2, 1});
  const ValueId y = build.max_pool2d(x, {2, 2, 2, 2, {}, true});
  g.value(y).kind = ValueKind::kOutput;
  GraphRun run(g, test::open_device("simulated", {{"poison", "true"}}));
  run.set(x, {1, 4, 3, 2});
  run.run();
  EXPECT_EQ(run.get(y), Numbers{4});
}

TEST(Storage, OneBufferForEachName) {
  const auto device = test::open_device("reference");
  Storage storage(device);
  storage.buffer("a", 64);
  void* const a = storage.find("a");
  storage.buffer("a", 64);
  EXPECT_EQ(storage.find("a"), a);
  EXPECT_EQ(storage.find("b"), nullptr);
  EXPECT_EQ(storage.bytes("a"), 64u);
  storage.buffer("b", 100);
  EXPECT_EQ(storage.total_bytes(), 164u);
  EXPECT_EQ(*static_cast<const char*>(a), 0);
  EXPECT_ANY_THROW(storage.buffer("a", 65));
}

// A device whose buffers have at most 1024 bytes.
std::shared_ptr<plugins::host::Device> open_with_small_buffers() {
  ::setenv("RUNTIME_SIMULATED_LARGEST_BUFFER", "1024", 1);
  const auto device = test::open_device("simulated", {{"memory_mb", "1"}});
  ::unsetenv("RUNTIME_SIMULATED_LARGEST_BUFFER");
  return device;
}

std::vector<std::byte> bytes_of(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

TEST(Storage, ABufferMayLieInPieces) {
  Storage storage(open_with_small_buffers());
  storage.buffer("flat", 2048, {1024, 1536});
  EXPECT_EQ(storage.total_bytes(), 2048u);
  EXPECT_EQ(storage.contiguous("flat", 1000), 24u);
  EXPECT_EQ(storage.contiguous("flat", 1536), 512u);
  EXPECT_EQ(storage.find("flat", 1030), storage.find("flat", 1024) + 6);
  EXPECT_EQ(storage.device()->memory_info().allocated_bytes, 2048u);
  plugins::host::Stream stream = storage.device()->create_stream();
  write_bytes(storage, stream, "flat", 500, bytes_of(1300));
  EXPECT_EQ(read_bytes(storage, stream, "flat", 500, 1300), bytes_of(1300));
  EXPECT_ANY_THROW(storage.buffer("flat", 2048, {1024})) << "other cuts";
  EXPECT_ANY_THROW(storage.buffer("large", 1025)) << "no piece is that large";
}

TEST(Arena, LiesInPiecesOfTheLargestBuffer) {
  const auto device = open_with_small_buffers();
  Arena arena(device, true);
  EXPECT_EQ(arena.piece(), 1024u);
  arena.reserve(2500);
  EXPECT_EQ(arena.at(0), nullptr);
  arena.materialise();
  const uint64_t version = arena.version();
  EXPECT_EQ(device->memory_info().allocated_bytes, 2560u) << "1024, 1024 and 452, rounded up";
  EXPECT_EQ(arena.at(1030), arena.at(1024) + 6);
  arena.reserve(2000);
  EXPECT_EQ(arena.version(), version);
  arena.reserve(3000);
  EXPECT_NE(arena.version(), version);
  EXPECT_EQ(Arena(test::open_device("simulated")).piece(), UINT64_MAX);
}

TEST(Program, AValueThatIsLargerThanABufferIsRefusedByName) {
  Graph g;
  Build build(g);
  build.layer = "wide";
  const ValueId x = test::add_value(g, "x", ValueKind::kInput, {16, 16});
  const ValueId y = build.node1(RT_OP_SCALE, {x}, {16, 16}, {{RT_ATTR_ALPHA, 2.0}});
  g.value(y).kind = ValueKind::kOutput;
  try {
    const GraphRun run(g, open_with_small_buffers());
    FAIL() << "2048 bytes fit into 1024";
  } catch (const plugins::host::Error& error) {
    EXPECT_EQ(error.code(), RT_ERROR_OUT_OF_MEMORY);
    EXPECT_THAT(error.what(), testing::HasSubstr("scale of layer 'wide'"));
    EXPECT_THAT(error.what(), testing::HasSubstr("[16, 16]"));
    EXPECT_THAT(error.what(), testing::HasSubstr("has 2048 bytes"));
    EXPECT_THAT(error.what(), testing::HasSubstr("at most 1024"));
  }
}

}  // namespace
}  // namespace runtime::exec
