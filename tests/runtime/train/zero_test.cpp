// All stages of ZeRO compute what one rank computes, and each rank holds its ZeRO partition only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/exec/encode.h"
#include "runtime/launch/job.h"
#include "runtime/launch/open_device.h"
#include "runtime/step/ranks.h"
#include "runtime/train/rank/step_programs.h"
#include "runtime/train/weights.h"
#include "tests/runtime/train/job.h"
#include "tests/runtime/train/llama_net.h"

namespace runtime::train {
namespace {

constexpr int kSteps = 20;

const Settings kManyBuckets = {{"comm.bucket_mb", "0.0005"}};
const Settings kMomentum = {{"optimizer.momentum", "0.9"}, {"optimizer.weight_decay", "0.01"}};
const Settings kAdamw = {{"optimizer.name", "adamw"}, {"optimizer.lr", "0.01"}};

const std::string kSmallMlp = R"(
[model]
input = [6]
layers = [
  { type = "linear", features = 13, activation = "tanh", l2 = 0.05 },
  { type = "dropout", probability = 0.2 },
  { type = "linear", features = 9, activation = "tanh" },
  { type = "linear", features = 4, l2 = 0.1 },
]
)" + kData;

// A GPT whose output layer is tied to its embedding.
std::string gpt(int width, int vocabulary, int blocks) {
  const auto n = [](int number) { return std::to_string(number); };
  return R"(
[model]
input = [5]
init = { normal = 0.2 }
layers = [
  { type = "embedding", name = "wte", vocabulary = )" +
         n(vocabulary) + ", features = " + n(width) + R"( },
  { type = "position_embedding", name = "wpe", length = 5 },
  { type = "block", name = "h", repeat = )" +
         n(blocks) + R"(, layers = [
    { type = "residual", prefix = false, layers = [
      { type = "layer_norm", name = "ln_1" },
      { type = "linear", name = "c_attn", features = )" +
         n(3 * width) + R"( },
      { type = "attention", heads = 2, causal = true },
      { type = "linear", name = "c_proj", features = )" +
         n(width) + R"( } ] },
    { type = "residual", prefix = false, layers = [
      { type = "layer_norm", name = "ln_2" },
      { type = "linear", name = "c_fc", features = )" +
         n(4 * width) + R"(, activation = "gelu" },
      { type = "linear", name = "c_proj2", features = )" +
         n(width) + R"( } ] },
  ] },
  { type = "layer_norm", name = "ln_f" },
  { type = "linear", name = "lm_head", features = )" +
         n(vocabulary) + R"(, bias = false, tie = "wte" },
]
)" + kData;
}

const Settings kSgd = {{"optimizer.name", "sgd"}, {"optimizer.lr", "0.1"}};
const Settings kNextToken = {{"dataset.task", "next_token"}, {"dataset.classes", "7"}};

struct Net {
  const char* name;
  std::string toml;
  Settings settings;
};

const Net kNets[] = {
    {"LeNet", kSmallLeNet, {}},
    {"Mlp", kSmallMlp, Settings{{"training.max_norm", "0.1"}} + kMomentum},
    {"AlexNet", kSmallAlexNet, {}},
    {"ResNet", kSmallResNet, {}},
    {"Gpt", gpt(8, 7, 2), kNextToken + kAdamw},
};

void PrintTo(const Net& net, std::ostream* out) { *out << net.name; }

Settings zero(int stage) { return {{"parallelism.zero_stage", std::to_string(stage)}}; }

void expect_close(const Trace& actual, const Trace& expected, double tolerance) {
  const Difference d = largest_difference(actual, expected);
  EXPECT_LT(d.relative, tolerance) << d.name;
}

// A trace of ranks that also compare their replicated (or gathered) values after each step.
Trace sharded(const Net& net, int ranks, int steps, const Settings& settings) {
  TraceOptions o = traced(net.toml, ranks, steps, settings);
  o.after_step = [](StepPrograms&, Trainer& trainer, int, int) { trainer.check_replicas(); };
  return record(o).trace;
}

class Zero : public testing::TestWithParam<std::tuple<Net, int>> {};

INSTANTIATE_TEST_SUITE_P(Stages, Zero,
                         testing::Combine(testing::ValuesIn(kNets), testing::Values(1, 2, 3)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST_P(Zero, EqualsOneRank) {
  const auto& [net, stage] = GetParam();
  const Settings settings = net.settings + kManyBuckets;
  const Trace one = trace(net.toml, 1, kSteps, settings);
  EXPECT_LT(mean_loss(one, kSteps - 4, 4), mean_loss(one, 0, 4)) << "it has learned";
  for (const int ranks : {2, 3, 4})
    expect_close(sharded(net, ranks, kSteps, settings + zero(stage)), one, kFloat64Tolerance);
  if (!test::has_backend("cpu")) return;
  // Without AdamW, which amplifies gradients that consist of rounding errors.
  const Settings float32 = net.settings + kFloat32 + kManyBuckets + kSgd;
  const Trace few = trace(net.toml, 1, 3, float32);
  for (const int ranks : {2, 3, 4})
    expect_close(trace(net.toml, ranks, 3, float32 + zero(stage)), few, kFloat32Tolerance);
}

TEST(ZeroLlama, EqualsOneRank) {
  const GptFile text;
  const Settings settings = kManyBuckets + kAdamw;
  const Trace one = trace(small_llama(text, 2), 1, kSteps, settings);
  for (const int stage : {1, 2, 3}) {
    for (const int ranks : {2, 3})
      expect_close(trace(small_llama(text, 2), ranks, kSteps, settings + zero(stage)), one,
                   kFloat64Tolerance);
  }
}

// Forms of a step, each on LeNet.
struct Form {
  const char* name;
  Settings settings;
};

class ZeroForms : public testing::TestWithParam<Form> {};

INSTANTIATE_TEST_SUITE_P(
    Zero, ZeroForms,
    testing::Values(
        Form{"OneBucket", kAdamw},
        Form{"NoOverlap", Settings{{"comm.overlap", "false"}} + kManyBuckets},
        Form{"MicroSteps", Settings{{"training.micro_batch_size", "1"}} + kManyBuckets + kMomentum},
        Form{"Pad", Settings{{"dataset.last_batch", "pad"}} + kManyBuckets},
        Form{"Freeze", Settings{{"model.freeze", "[\"conv*\", \"fc1.bias\"]"}} + kManyBuckets},
        Form{"Matrices", Settings{{"optimizer.weight_decay", "0.1"},
                                  {"optimizer.weight_decay_on", "matrices"},
                                  {"training.max_norm", "0.05"}} +
                             kManyBuckets},
        Form{"Validation", {{"dataset.samples", "61"}, {"dataset.validation_split", "0.5"}}}),
    [](const auto& info) { return info.param.name; });

TEST_P(ZeroForms, EqualsOneRank) {
  const Settings& settings = GetParam().settings;
  const Trace one = trace(kSmallLeNet, 1, 6, settings);
  for (const int stage : {2, 3}) {
    for (const int ranks : {2, 3})
      expect_close(trace(kSmallLeNet, ranks, 6, settings + zero(stage)), one, kFloat64Tolerance);
  }
}

TEST(ZeroBlocks, RecomputationChangesNothing) {
  const Settings settings = kManyBuckets + zero(3);
  EXPECT_TRUE(
      same_bits(trace(kSmallResNet, 2, 4, settings + Settings{{"training.recompute", "blocks"}}),
                trace(kSmallResNet, 2, 4, settings)));
}

// The simulated device has queued streams and memory that the host cannot read. Delays and poison
// reveal missing waits.
TEST(ZeroDevices, SimulatedEqualsReferenceBitForBit) {
  const Settings slow = {{"device.simulated.poison", "true"},
                         {"device.simulated.max_delay_us", "200"},
                         {"launch.devices", "[\"simulated:0\", \"simulated:1\", \"reference\"]"}};
  Settings settings = kManyBuckets + kMomentum +
                      Settings{{"dataset.samples", "61"}, {"dataset.validation_split", "0.5"}};
  // The padding of a bucket is poisoned as well until it is filled, and it counts in the norm.
  settings.push_back({"training.max_norm", "0.05"});
  for (const int stage : {2, 3}) {
    const Trace expected = trace(kSmallLeNet, 3, 4, settings + zero(stage));
    EXPECT_TRUE(same_bits(trace(kSmallLeNet, 3, 4, settings + zero(stage) + slow), expected));
  }
}

TEST(ZeroDevices, CpuAndReference) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the cpu backend was not built";
  const Settings float32 = kManyBuckets + Settings{{"training.dtype", "float32"}};
  const Settings both = {{"launch.devices", "[\"cpu\", \"reference\"]"}};
  for (const std::string& toml : {kSmallLeNet, kSmallResNet})
    expect_close(trace(toml, 2, 3, float32 + zero(3) + both), trace(toml, 1, 3, float32), 1e-4);
}

// ZeRO partitions over the data axis of a mesh.
TEST(ZeroMesh, BesideTensorParallelism) {
  const Settings tensor = {{"parallelism.tensor", "2"}, {"training.max_norm", "0.1"}};
  for (const Net& net : {kNets[0], kNets[3]}) {
    const Settings settings = net.settings + kManyBuckets + tensor;
    const Trace one = trace(net.toml, 1, 6, settings + Settings{{"parallelism.tensor", "1"}});
    for (const int stage : {1, 2, 3})
      expect_close(trace(net.toml, 4, 6, settings + zero(stage)), one, kFloat64Tolerance);
  }
}

TEST(ZeroMesh, BesideAPipeline) {
  const Settings settings = kNextToken + kAdamw + kManyBuckets +
                            Settings{{"training.max_norm", "0.1"},
                                     {"dataset.last_batch", "drop"},
                                     {"training.global_batch_size", "8"}};
  const std::string toml = gpt(8, 7, 4);
  const Trace one = trace(toml, 1, 6, settings);
  for (const int stage : {1, 2, 3})
    expect_close(
        trace(toml, 4, 6, settings + zero(stage) + Settings{{"parallelism.pipeline", "2"}}), one,
        kFloat64Tolerance);
}

// A fault in data that only one rank holds must show in the results.
TEST(ZeroFaults, InAShardIsSeen) {
  const Settings settings = kManyBuckets + kMomentum;
  const Trace one = trace(kSmallLeNet, 1, 4, settings);
  const std::pair<int, const char*> shards[] = {
      {1, "momentum"}, {2, "momentum"}, {3, "momentum"}, {3, "parameters"}};
  for (const auto& [stage, buffer] : shards) {
    TraceOptions o = traced(kSmallLeNet, 3, 4, settings + zero(stage));
    o.after_step = [name = buffer](StepPrograms& programs, Trainer&, int rank, int step) {
      if (rank != 1 || step != 1) return;
      programs.rank_model().write_buffer(name, 3 * sizeof(double), exec::encode({0.5}, RT_FLOAT64));
    };
    EXPECT_GT(largest_difference(record(o).trace, one).relative, 1e-2) << stage << buffer;
  }
}

TEST(ZeroFaults, ACollectiveLeftOutIsSeen) {
  const Trace one = trace(kSmallLeNet, 1, 3, kManyBuckets);
  for (const int stage : {2, 3}) {
    TraceOptions o = traced(kSmallLeNet, 2, 3, kManyBuckets + zero(stage));
    o.left_out = "bucket 1";
    EXPECT_GT(largest_difference(record(o).trace, one).relative, 1e-2) << stage;
  }
}

struct Held {
  uint64_t kept = 0;       // parameters, gradients and optimizer state, according to the plan
  uint64_t passing = 0;    // whole buckets of these at one time, according to the plan
  uint64_t stored = 0;     // like kept, but as allocated
  uint64_t allocated = 0;  // by the device, including activations
};

// The largest number of bytes of whole buckets that are in memory at one node.
uint64_t passing(const exec::MemoryReport& memory) {
  uint64_t most = 0;
  const auto is_bucket = [](const exec::BufferInfo& b) {
    return b.kind == graph::ValueKind::kTemporary && b.name.find(", bucket ") != std::string::npos;
  };
  for (const exec::BufferInfo& at : memory.buffers) {
    uint64_t bytes = 0;
    for (const exec::BufferInfo& b : memory.buffers)
      bytes += is_bucket(b) && b.first <= at.first && at.first <= b.last ? b.bytes : 0;
    most = std::max(most, bytes);
  }
  return most;
}

// The memory of rank 0 after a few steps.
Held held(int ranks, int stage, const Settings& mesh = {}) {
  Held held;
  const config::Config job = traced(gpt(128, 64, 4), ranks, 1,
                                    kNextToken + kAdamw + zero(stage) + mesh +
                                        Settings{{"training.dtype", "float32"},
                                                 {"dataset.samples", "8"},
                                                 {"training.global_batch_size", "4"}})
                                 .config;
  launch::run_ranks(job, {}, {}, [&](launch::Rank& rank) {
    const config::Config config = step::resolve_ranks(rank.config, ranks);
    const data::DatasetPair data = open_data(config, nullptr);
    const auto device = launch::open_device(config, *rank.registry, rank.place.local_rank, nullptr);
    exec::CompileOptions compile{{.tune = exec::Tune::kOff}};
    compile.collectives = rank.collectives;
    const auto programs =
        std::make_shared<StepPrograms>(RankSetup(config, data.train->spec(), device, compile));
    Trainer trainer(programs);
    data::Loader loader(data.train, train_loader_options(config, trainer.split()));
    for (int i = 0; i < 2; ++i) trainer.step(loader.next(), 0.01);
    trainer.next_result(true);
    if (!rank.main()) return;
    const exec::MemoryReport& memory = programs->any_compiled().program->memory();
    held = {memory.parameters + memory.gradients_and_state + memory.packed, passing(memory),
            programs->rank_model().storage().total_bytes(), device->memory_info().allocated_bytes};
  });
  return held;
}

TEST(ZeroMemory, ARankOfFourHoldsAThird) {
  const Held one = held(1, 0);
  const double kept[] = {1, 0.625, 0.4375, 0.25};  // fraction of Adam's state, by stage
  for (const int stage : {1, 2, 3}) {
    const Held h = held(4, stage);
    const auto part = [](uint64_t bytes, uint64_t of) {
      return static_cast<double>(bytes) / static_cast<double>(of);
    };
    EXPECT_NEAR(part(h.kept, one.kept), kept[stage], 0.005) << stage;
    EXPECT_NEAR(part(h.stored, one.stored), kept[stage], 0.005) << stage;
    if (stage < 3) continue;
    EXPECT_LT(part(h.kept + h.passing, one.kept), 0.35);
    EXPECT_LT(part(h.stored + h.passing, one.stored), 0.35);
    EXPECT_LT(part(h.allocated, one.allocated), 0.37);
    RecordProperty("allocated", static_cast<int>(h.allocated));
  }
}

// The embedding, which is tied to the layer of the last stage, is kept whole until both have added
// their gradients of it: 2 % of the parameters of the first stage.
TEST(ZeroMemory, OfAPipelineIsDividedInEachStage) {
  const Settings pipeline = {{"parallelism.pipeline", "2"}};
  const Held one = held(2, 0, pipeline);
  for (const auto& [stage, kept] : {std::pair(1, 0.75), {2, 0.63}, {3, 0.505}}) {
    const Held h = held(4, stage, pipeline);
    EXPECT_NEAR(static_cast<double>(h.kept) / static_cast<double>(one.kept), kept, 0.005) << stage;
  }
}

}  // namespace
}  // namespace runtime::train
