// N ranks compute what one rank computes: every loss, every reduced gradient, all weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/runtime/train/job.h"
#include "tests/runtime/train/ranks_nets.h"

namespace runtime::train {
namespace {

constexpr int kSteps = 20;
constexpr double kFloat64Tolerance = 1e-9, kFloat32Tolerance = 1e-5;
const Settings kDeterministic = {{"debug.deterministic", "true"}};

void expect_close(const std::string& toml, const Settings& settings, double tolerance, int steps,
                  const std::vector<int>& ranks = {2, 3, 4}) {
  const Trace one = trace(toml, 1, steps, settings);
  for (const int n : ranks) {
    const Difference d = largest_difference(trace(toml, n, steps, settings), one);
    EXPECT_LT(d.relative, tolerance) << n << " ranks: " << d.name;
    testing::Test::RecordProperty("ranks_" + std::to_string(n), testing::PrintToString(d.relative));
  }
  if (steps == kSteps) {
    EXPECT_LT(mean_loss(one, steps - 4, 4), mean_loss(one, 0, 4)) << "it has learned";
  }
}

struct Case {
  const char* name;
  std::string toml;
  Settings settings;
};

class Ranks : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Nets, Ranks,
                         testing::Values(Case{"LeNet7", kSmallLeNet, {}},
                                         Case{"LeNet250", kSmallLeNet, kLargeBatch},
                                         Case{"ResNet7", kSmallResNet, {}},
                                         Case{"ResNet250", kSmallResNet, kLargeBatch}),
                         [](const auto& info) { return info.param.name; });

TEST_P(Ranks, Float64) {
  expect_close(GetParam().toml, GetParam().settings, kFloat64Tolerance, kSteps);
}

TEST_P(Ranks, Float32) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the cpu backend was not built";
  expect_close(GetParam().toml, GetParam().settings + kFloat32, kFloat32Tolerance, 3);
}

TEST_P(Ranks, DeterministicBitForBit) {
  for (const Settings& device : {Settings{}, kFloat32}) {
    if (!device.empty() && !test::has_backend("cpu")) continue;
    const Settings settings = GetParam().settings + device + kDeterministic;
    const Trace one = trace(GetParam().toml, 1, kSteps, settings);
    for (const int n : {2, 3, 4})
      EXPECT_TRUE(same_bits(trace(GetParam().toml, n, kSteps, settings), one)) << n << " ranks";
    EXPECT_LT(mean_loss(one, kSteps - 4, 4), mean_loss(one, 0, 4));
  }
}

// Forms of a step, each on LeNet; 10 steps cover two epochs.
struct Form {
  const char* name;
  Settings settings;
};

const Settings kMomentum = {{"optimizer.momentum", "0.9"}, {"optimizer.weight_decay", "0.01"}};
const Settings kAdamw = {{"optimizer.name", "adamw"}, {"optimizer.lr", "0.01"}};
const Settings kZero = {{"parallelism.zero_stage", "1"}};
const Settings kClip = {{"training.max_norm", "0.05"}};
const Settings kMatrices = {{"optimizer.weight_decay", "0.1"},
                            {"optimizer.weight_decay_on", "matrices"}};
const Settings kManyBuckets = {{"comm.bucket_mb", "0.0005"}};

class Forms : public testing::TestWithParam<Form> {};

INSTANTIATE_TEST_SUITE_P(
    Ranks, Forms,
    testing::Values(
        Form{"Momentum", kMomentum}, Form{"Adamw", kAdamw}, Form{"ZeroMomentum", kZero + kMomentum},
        Form{"ZeroAdamw", kZero + kAdamw + kManyBuckets},
        Form{"ZeroMomentumClipped", kZero + kMomentum + kClip + kManyBuckets},
        Form{"ZeroAdamwClipped", kZero + kAdamw + kClip}, Form{"Clipped", kClip + kManyBuckets},
        Form{"Matrices", kMatrices + kManyBuckets}, Form{"MatricesClipped", kMatrices + kClip},
        Form{"ZeroMatrices", kZero + kAdamw + kMatrices},
        Form{"ZeroMatricesBuckets", kZero + kMomentum + kMatrices + kManyBuckets},
        Form{"DeterministicMatrices", kDeterministic + kMatrices},
        Form{"NoOverlap", Settings{{"comm.overlap", "false"}} + kManyBuckets},
        Form{"ManyBuckets", kManyBuckets},
        Form{"MicroSteps", Settings{{"training.micro_batch_size", "1"}} + kManyBuckets},
        Form{"MicroStepsZero", Settings{{"training.micro_batch_size", "2"}} + kZero + kMomentum},
        Form{"Pad", {{"dataset.last_batch", "pad"}}},
        Form{"Drop", {{"dataset.last_batch", "drop"}}},
        Form{"Freeze", Settings{{"model.freeze", "[\"conv*\"]"}} + kManyBuckets},
        Form{"DeterministicZero", kDeterministic + kZero + kMomentum}),
    [](const auto& info) { return info.param.name; });

TEST_P(Forms, EqualsOneRank) {
  expect_close(kSmallLeNet, GetParam().settings, kFloat64Tolerance, 10, {2, 3});
}

// Neighbours divide what ZeRO divides, and the others have copies of it.
TEST(RanksJob, PartitionsMayHaveCopies) {
  struct Way {
    int ranks, zero_ranks;
    Settings more;
  };
  const Settings overlap_off = {{"comm.overlap", "false"}},
                 micro_steps = {{"training.micro_batch_size", "1"}},
                 tensor = {{"parallelism.tensor", "2"}};
  for (const Settings& rule : {kMomentum + kManyBuckets, kAdamw + kClip + kManyBuckets}) {
    const Trace one = trace(kSmallLeNet, 1, 10, rule);
    for (const char* const stage : {"1", "2", "3"}) {
      for (const Way& way : {Way{4, 2, {}}, Way{6, 2, {}}, Way{6, 3, overlap_off},
                             Way{4, 2, micro_steps}, Way{4, 4, {}}, Way{8, 2, tensor}}) {
        const Settings zero = {{"parallelism.zero_stage", stage},
                               {"parallelism.zero_ranks", std::to_string(way.zero_ranks)},
                               {"debug.check_replicas_every", "1"}};
        const Trace found = trace(kSmallLeNet, way.ranks, 10, rule + zero + way.more);
        const Difference d = largest_difference(found, one);
        EXPECT_LT(d.relative, kFloat64Tolerance)
            << "stage " << stage << ", " << way.ranks << " ranks by " << way.zero_ranks << ": "
            << d.name;
      }
    }
  }
}

// Without sync_batch_norm each rank has its own statistics, but dropout masks and the penalty of a
// layer must not depend on the number of ranks.
const std::string kDropoutAndL2 = R"(
[model]
input = [6]
layers = [
  { type = "linear", name = "a", features = 12, activation = "tanh", l2 = 0.05 },
  { type = "dropout", probability = 0.4 },
  { type = "linear", name = "b", features = 4, l2 = 0.1 },
]
)" + kData;

TEST(RanksJob, DropoutHasTheSameMasksAndPenaltiesTheSameWeight) {
  expect_close(kDropoutAndL2, {}, kFloat64Tolerance, 10);
  expect_close(kDropoutAndL2, {{"training.micro_batch_size", "1"}}, kFloat64Tolerance, 10);
}

// A model with several labels per sample.
const std::string kLanguageModel = R"(
[model]
input = [5]
layers = [
  { type = "embedding", vocabulary = 7, features = 6 },
  { type = "layer_norm" },
  { type = "linear", features = 7 },
]
)" + kData;
const Settings kNextToken = {{"dataset.task", "next_token"}, {"dataset.classes", "7"}};

TEST(RanksJob, LanguageModel) {
  expect_close(kLanguageModel, kNextToken, kFloat64Tolerance, kSteps);
  expect_close(kLanguageModel, kNextToken + Settings{{"dataset.last_batch", "pad"}},
               kFloat64Tolerance, 10);
  const Settings deterministic = kNextToken + kDeterministic;
  EXPECT_TRUE(same_bits(trace(kLanguageModel, 3, 10, deterministic),
                        trace(kLanguageModel, 1, 10, deterministic)));
}

TEST(RanksJob, EvaluationIsTheSameOnAnyNumberOfRanks) {
  const Settings split = {{"dataset.samples", "61"}, {"dataset.validation_split", "0.5"}};
  for (const std::string& toml : {kSmallLeNet, kSmallResNet}) {
    const Settings settings = split + kDeterministic;
    const Numbers one = numbers(trace(toml, 1, 3, settings).tensors.at("validation"));
    EXPECT_EQ(one.at(2), 31);  // every sample counts once
    for (const int n : {2, 3, 4})
      EXPECT_EQ(numbers(trace(toml, n, 3, settings).tensors.at("validation")), one) << n;
  }
}

// Statistics of each rank's own rows would depend on the number of ranks.
TEST(RanksJob, DeterministicNormalisesOverTheGlobalBatch) {
  std::string toml = kSmallResNet;
  const std::string sync = "[parallelism]\nsync_batch_norm = true\n";
  toml.erase(toml.find(sync), sync.size());
  const Trace one = trace(toml, 1, 6, kDeterministic);
  for (const int n : {2, 3})
    EXPECT_TRUE(same_bits(trace(toml, n, 6, kDeterministic), one)) << n << " ranks";
}

// Virtual shards of the batch, statistics over all ranks, running statistics that are updated once.
TEST(RanksJob, RecomputationChangesNothing) {
  const Settings recompute = {{"training.recompute", "blocks"}};
  const Settings sync = {{"parallelism.sync_batch_norm", "true"}};
  for (const Settings& settings : {kDeterministic, sync, kZero + kManyBuckets}) {
    const Trace expected = trace(kSmallResNet, 2, 4, settings);
    EXPECT_TRUE(same_bits(trace(kSmallResNet, 2, 4, settings + recompute), expected));
  }
}

// A device with the base set alone gives the numbers of one with all operations. This covers what
// passes add or look for when they distribute a step: the rows of batch normalisation, concat, the
// parts of the optimizer.
TEST(RanksJob, TheBaseSetIsEnough) {
  const Settings base = {{"device.backend", "simulated"},
                         {"device.simulated.base_set", "true"},
                         {"device.simulated.max_delay_us", "0"}};
  const Settings zero3 = {{"parallelism.zero_stage", "3"}};
  const Settings tensor = {{"parallelism.tensor", "2"}};
  const Settings pipeline = {{"parallelism.pipeline", "2"}};
  for (const Settings& settings : {kDeterministic, kZero + kAdamw + kClip, zero3 + kMomentum,
                                   tensor + kAdamw, pipeline + kMomentum + kClip}) {
    const Trace expected = trace(kSmallResNet, 2, 4, settings);
    const Difference d = largest_difference(trace(kSmallResNet, 2, 4, settings + base), expected);
    EXPECT_LT(d.relative, kFloat64Tolerance) << d.name << ", " << settings[0].key;
  }
  const Settings language = kNextToken + tensor;
  const Difference d = largest_difference(trace(kLanguageModel, 2, 4, language + base),
                                          trace(kLanguageModel, 2, 4, language));
  EXPECT_LT(d.relative, kFloat64Tolerance) << d.name;
}

TEST(RanksJob, BatchSizePerRank) {
  const auto per_rank = [](int rows) {
    TraceOptions o = traced(kSmallLeNet, 14 / rows, 5);
    o.config.training.global_batch_size = 0;
    o.config.training.batch_size_per_rank = rows;
    return record(o).trace;
  };
  EXPECT_LT(largest_difference(per_rank(7), per_rank(14)).relative, kFloat64Tolerance);
}

// The comparison must detect a tensor that is not reduced.
TEST(RanksJob, ATensorLeftOutOfTheAllReduceIsSeen) {
  const Settings one_bucket_each = {{"comm.bucket_mb", "0.00001"}};
  const Trace one = trace(kSmallLeNet, 1, 3, one_bucket_each);
  TraceOptions o = traced(kSmallLeNet, 2, 3, one_bucket_each);
  EXPECT_LT(largest_difference(record(o).trace, one).relative, kFloat64Tolerance);
  for (const char* bucket : {"bucket 0", "bucket 3", "bucket 7"}) {
    o.left_out = bucket;
    EXPECT_GT(largest_difference(record(o).trace, one).relative, 1e-2) << bucket;
  }
}

TEST(RanksJob, AFlippedBitIsFoundInTheReplica) {
  for (const int ranks : {2, 3}) {
    TraceOptions o = traced(kSmallLeNet, ranks, 4);
    o.flip_after = 2;
    try {
      record(o);
      FAIL() << "no error";
    } catch (const NumericError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode{6});
      EXPECT_THAT(error.what(), testing::HasSubstr("after step 3 the parameters of rank 1 differ"));
    }
  }
}

Settings devices(const std::string& list) { return {{"launch.devices", list}}; }

TEST(MixedDevices, CpuAndReference) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the cpu backend was not built";
  for (const std::string& toml : {kSmallLeNet, kSmallResNet}) {
    const Settings float32 = {{"training.dtype", "float32"}};
    const Trace one = trace(toml, 1, 3, float32);
    const Difference d =
        largest_difference(trace(toml, 2, 3, float32 + devices("[\"cpu\", \"reference\"]")), one);
    EXPECT_LT(d.relative, 1e-4) << d.name;
  }
}

// The simulated device has queued streams and memory that the host cannot read, so collectives go
// through host memory. Delays and poison reveal missing waits.
const Settings kSlowQueue = {{"device.simulated.poison", "true"},
                             {"device.simulated.max_delay_us", "200"}};

void expect_same_on_simulated(const std::string& list, int ranks, const Settings& settings) {
  for (const std::string& toml : {kSmallLeNet, kSmallResNet}) {
    const Trace expected = trace(toml, ranks, 6, settings);
    EXPECT_TRUE(same_bits(trace(toml, ranks, 6, settings + kSlowQueue + devices(list)), expected));
  }
}

TEST(MixedDevices, SimulatedEqualsReferenceBitForBit) {
  expect_same_on_simulated("[\"simulated:0\", \"simulated:1\"]", 2, {});
  expect_same_on_simulated("[\"simulated:0\", \"simulated:1\", \"simulated:0\"]", 3,
                           kManyBuckets + kZero + kMomentum);
}

TEST(MixedDevices, SimulatedBesideReference) {
  expect_same_on_simulated("[\"reference\", \"simulated:1\"]", 2, kManyBuckets);
  expect_same_on_simulated("[\"simulated\", \"reference\", \"simulated:1\", \"reference\"]", 4,
                           kDeterministic);
}

TEST(MixedDevices, SharesBySpeed) {
  const Settings by_speed = {{"parallelism.share", "by_speed"},
                             {"device.simulated.max_delay_us", "2000"}};
  const TraceOptions o =
      traced(kSmallLeNet, 2, 3, kLargeBatch + by_speed + devices("[\"reference\", \"simulated\"]"));
  const TraceResult result = record(o);
  EXPECT_GT(result.share, 125);
  EXPECT_LT(result.share, 250);
  const Difference d = largest_difference(result.trace, trace(kSmallLeNet, 1, 3, kLargeBatch));
  EXPECT_LT(d.relative, kFloat64Tolerance) << d.name;
}

}  // namespace
}  // namespace runtime::train
