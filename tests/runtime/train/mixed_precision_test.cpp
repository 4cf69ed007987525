// Compares training with 16-bit activations with training in float32, on the reference and on the
// cpu where it computes in bfloat16.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "plugins/host/error.h"
#include "runtime/config/choices.h"
#include "runtime/error.h"
#include "runtime/exec/encode.h"
#include "runtime/row_of.h"
#include "runtime/session/reports/screen.h"
#include "runtime/train/rank/step_programs.h"
#include "runtime/train/weights.h"
#include "tests/runtime/train/job.h"
#include "tests/runtime/train/mesh_nets.h"

namespace runtime::train {
namespace {

using testing::HasSubstr;

constexpr int kSteps = 20;
// Half a unit in the last place of bfloat16 is 2e-3; ten of them are allowed.
constexpr double kTolerance = 2e-2;

const std::string kSmallMlp = R"(
[model]
input = [8]
layers = [
  { type = "linear", features = 16, activation = "gelu", l2 = 0.01 },
  { type = "dropout", probability = 0.1 },
  { type = "linear", features = 16, activation = "tanh" },
  { type = "linear", features = 4 },
]
)" + kData;

Settings mixed(const std::string& type) {
  return {{"training.dtype", "float32"}, {"training.mixed_precision", type}};
}

// The elements of all tensors, in the order of names.
Numbers joined(const data::TensorFile& file) {
  Numbers all;
  for (const auto& [name, tensor] : file.tensors) {
    if (name == "loss" || name == "logits") continue;
    const Numbers own = numbers(tensor);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

void set_loss_scaling(Job& job, double scale, double good) {
  StepPrograms& programs = *job.programs;
  void* const state = programs.rank_model().storage().find(step::kLossScaling);
  ASSERT_NE(state, nullptr);
  exec::write_memory(programs.stream(), state, exec::encode({scale, good, 0}, RT_FLOAT32));
}

struct Form {
  const char* net;
  const char* type;
  const char* backend = "reference";
};

bool computes_in_bfloat16(const std::string& backend) {
  if (!test::has_backend(backend)) return false;
  const Job job(kSmallLeNet, backend, mixed("none"));
  const uint64_t types = job.programs->setup().device->properties().compute_dtypes;
  return (types & RT_DTYPE_BIT(RT_BFLOAT16)) != 0;
}

class MixedPrecision : public testing::TestWithParam<Form> {
 protected:
  void SetUp() override {
    const std::string backend = GetParam().backend;
    if (backend == "cpu" && !computes_in_bfloat16(backend))
      GTEST_SKIP() << "no cpu backend that computes in bfloat16";
  }
  std::string toml() const {
    const std::string net = GetParam().net;
    return net == "LeNet"    ? kSmallLeNet
           : net == "Mlp"    ? kSmallMlp
           : net == "ResNet" ? kSmallResNet
                             : gpt_.toml();
  }
  Settings settings() const { return mixed(GetParam().type); }
  GptFile gpt_;
};

INSTANTIATE_TEST_SUITE_P(Nets, MixedPrecision,
                         testing::Values(Form{"LeNet", "bf16"}, Form{"LeNet", "f16"},
                                         Form{"Mlp", "bf16"}, Form{"Mlp", "f16"},
                                         Form{"ResNet", "bf16"}, Form{"ResNet", "f16"},
                                         Form{"Gpt", "bf16"}, Form{"Gpt", "f16"},
                                         Form{"LeNet", "bf16", "cpu"}, Form{"Mlp", "bf16", "cpu"},
                                         Form{"ResNet", "bf16", "cpu"}, Form{"Gpt", "bf16", "cpu"}),
                         [](const auto& info) {
                           return std::string(info.param.net) + "_" + info.param.type + "_" +
                                  info.param.backend;
                         });

// A step that float16 skips is compared with a float32 step of learning rate 0.
TEST_P(MixedPrecision, LossesAreThoseOfFloat32AndFall) {
  Job narrow(toml(), GetParam().backend, settings()), wide(toml(), "reference", mixed("none"));
  const double rate = narrow.config.optimizer.lr;
  int64_t skipped = 0;
  double first = 0, last = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double loss = narrow.step()[0];
    const std::optional<LossScaling> scaling = narrow.trainer->loss_scaling();
    EXPECT_EQ(scaling.has_value(), std::string(GetParam().type) == "f16");
    const bool left_out = scaling && scaling->skipped > skipped;
    if (scaling) skipped = scaling->skipped;
    wide.trainer->step(wide.loader->next(), left_out ? 0 : rate);
    EXPECT_NEAR(loss, wide.losses()[0], kTolerance * loss) << i;
    if (i < 4) first += loss;
    if (i >= kSteps - 4) last += loss;
  }
  EXPECT_LT(last, first) << "it has learned";
  EXPECT_LT(skipped, 5);
}

TEST_P(MixedPrecision, GradientsAreThoseOfFloat32ByNorm) {
  Job narrow(toml(), GetParam().backend, settings()), wide(toml(), "reference", mixed("none"));
  if (GetParam().type == std::string("f16")) {
    narrow.step(0);
    set_loss_scaling(narrow, 1024, 0);
  }
  const data::TensorFile a = narrow.trainer->gradients(narrow.loader->next());
  const data::TensorFile b = wide.trainer->gradients(wide.loader->next());
  for (const auto& [name, tensor] : a.tensors) EXPECT_EQ(tensor.dtype, RT_FLOAT32) << name;
  EXPECT_LT(test::relative_error(joined(a), joined(b)), kTolerance);
  EXPECT_LT(test::relative_error(numbers(a.tensors.at("logits")), numbers(b.tensors.at("logits"))),
            kTolerance);
  EXPECT_NEAR(numbers(a.tensors.at("loss"))[0], numbers(b.tensors.at("loss"))[0], kTolerance);
}

// The updates are about a hundredth of the distance between two neighbouring bfloat16 numbers.
TEST(MixedPrecisionWeights, SmallUpdatesAreNotLost) {
  const Settings small = {{"optimizer.lr", "1e-4"}};
  Job narrow(kSmallLeNet, "reference", mixed("bf16") + small);
  Job wide(kSmallLeNet, "reference", mixed("none") + small);
  const Numbers before = joined(narrow.trainer->weights());
  narrow.step(4);
  wide.step(4);
  Numbers a = joined(narrow.trainer->weights()), b = joined(wide.trainer->weights());
  for (size_t i = 0; i < before.size(); ++i) {
    a[i] -= before[i];
    b[i] -= before[i];
  }
  EXPECT_LT(test::relative_error(a, b), kTolerance);
}

TEST(MixedPrecisionWeights, EvaluationAndOutputsAreNumbersOfFloat32) {
  Job narrow(kSmallLeNet, "reference", mixed("bf16")),
      wide(kSmallLeNet, "reference", mixed("none"));
  const Numbers a = narrow.trainer->outputs(narrow.loader->next());
  EXPECT_LT(test::relative_error(a, wide.trainer->outputs(wide.loader->next())), kTolerance);
}

// Recomputing a block repeats its casts with the same bits; micro-steps accumulate in float32.
TEST(MixedPrecisionForms, RecomputationAndMicroStepsAreTheSameTraining) {
  const GptFile file;
  Job kept(file.toml(), "reference", mixed("bf16"));
  Job again(file.toml(), "reference", mixed("bf16") + Settings{{"training.recompute", "blocks"}});
  Job parts(file.toml(), "reference", mixed("bf16") + Settings{{"training.micro_batch_size", "2"}});
  const Numbers losses = kept.step(4);
  EXPECT_EQ(again.step(4), losses);
  EXPECT_TRUE(same_bits(again.trainer->weights(), kept.trainer->weights()));
  EXPECT_LT(test::relative_error(parts.step(4), losses), kTolerance);
  EXPECT_LT(test::relative_error(joined(parts.trainer->weights()), joined(kept.trainer->weights())),
            kTolerance);
}

// ---- the 16-bit copies of parameters

// The gradients of a job whose parameters have just been loaded, so that no update has written its
// copies.
data::TensorFile gradients_of_fresh_job(const data::TensorFile& weights, const Settings& settings) {
  Job job(kSmallLeNet, "reference", settings);
  job.trainer->set_weights(weights, "", {});
  return job.trainer->gradients(job.loader->next());
}

TEST(NarrowCopies, FollowUpdatesAndLoadedWeights) {
  for (const Settings& more :
       {Settings{}, Settings{{"optimizer.name", "adamw"}, {"training.micro_batch_size", "2"}}}) {
    const Settings settings = mixed("bf16") + more;
    Job job(kSmallLeNet, "reference", settings);
    const data::Batch batch = job.loader->next();
    const data::TensorFile before = job.trainer->weights();
    const data::TensorFile first = gradients_of_fresh_job(before, settings);
    EXPECT_TRUE(same_bits(job.trainer->gradients(batch), first));
    job.step(3);
    const data::TensorFile after = job.trainer->weights();
    const data::TensorFile second = job.trainer->gradients(batch);
    EXPECT_FALSE(same_bits(second, first));
    EXPECT_TRUE(same_bits(second, gradients_of_fresh_job(after, settings))) << "of the update";
    job.trainer->set_weights(before, "", {});
    EXPECT_TRUE(same_bits(job.trainer->gradients(batch), first)) << "of the loaded weights";
  }
}

// `runtime verify` compares the flat buffers of two devices.
TEST(NarrowCopies, LieAlikeOnDevicesWithOtherAlignments) {
  Job one(kSmallLeNet, "reference", mixed("bf16")), other(kSmallLeNet, "simulated", mixed("bf16"));
  ASSERT_LT(one.programs->setup().device->properties().alignment,
            other.programs->setup().device->properties().alignment);
  const auto& offsets = one.programs->any_compiled().values.buffers.layout.offsets;
  EXPECT_EQ(offsets, other.programs->any_compiled().values.buffers.layout.offsets);
  for (const uint64_t offset : offsets) EXPECT_EQ(offset / 2 % 256, 0u);
}

// On the simulated device every operand must be aligned to 256 bytes.
TEST(NarrowCopies, ADeviceThatCannotWriteThemTrainsWithTheSameBits) {
  const Settings settings = mixed("bf16") + Settings{{"optimizer.name", "adamw"}};
  const auto losses = [&](const std::string& refuse) {
    Job job(kSmallLeNet, test::open_device("simulated", {{"refuse", refuse}}), settings);
    return job.step(4);
  };
  const Numbers expected = losses("dropout");
  EXPECT_NE(expected.back(), expected.front());
  EXPECT_EQ(losses("narrow"), expected);
}

class LossScale : public testing::TestWithParam<std::string> {
 protected:
  Settings settings() const {
    const Settings adamw = {{"optimizer.name", "adamw"}, {"optimizer.lr", "0.01"}};
    const Settings sgd = {{"optimizer.momentum", "0.9"}, {"training.max_norm", "5"}};
    const Settings decay = {{"optimizer.weight_decay", "1e-4"}, {"training.max_value", "5"}};
    const Settings others = {{"optimizer.name", GetParam()}, {"optimizer.lr", "0.001"}};
    if (GetParam() == "sgd") return mixed("f16") + sgd;
    return mixed("f16") + (GetParam() == "adamw" ? adamw : others + decay);
  }
};
INSTANTIATE_TEST_SUITE_P(Optimizers, LossScale,
                         testing::ValuesIn(names_of_rows(config::optimizers())),
                         [](const auto& info) { return info.param; });

TEST_P(LossScale, AnOverflowChangesNothingButTheScaleAndTrainingGoesOn) {
  Job job(kSmallLeNet, "reference", settings());
  job.step();
  set_loss_scaling(job, 16777216, 7);
  const data::TensorFile before = job.trainer->weights();
  job.step();
  EXPECT_EQ(job.trainer->loss_scaling()->scale, 8388608);
  EXPECT_EQ(job.trainer->loss_scaling()->skipped, 1);
  EXPECT_TRUE(same_bits(job.trainer->weights(), before));
  Numbers losses = job.step(60);
  EXPECT_FALSE(same_bits(job.trainer->weights(), before));
  EXPECT_LT(job.trainer->loss_scaling()->skipped, 15);
  EXPECT_LT(losses.back(), losses.front());
  for (double loss : losses) EXPECT_TRUE(std::isfinite(loss));
}

TEST_P(LossScale, ItGrowsAfterGoodSteps) {
  Job job(kSmallLeNet, "reference", settings());
  job.step();
  set_loss_scaling(job, 256, 1998);
  job.step();
  EXPECT_EQ(job.trainer->loss_scaling()->scale, 256);
  job.step();
  EXPECT_EQ(job.trainer->loss_scaling()->scale, 512);
  EXPECT_EQ(job.trainer->loss_scaling()->skipped, 0);
}

// Unscaling and clipping in one operation gives the update of float32 with the same max_norm.
TEST(LossScaleAndClipping, AreTheClippedUpdateOfFloat32) {
  const Settings clipped = {{"training.max_norm", "0.1"}};
  Job narrow(kSmallLeNet, "reference", mixed("f16") + clipped);
  Job wide(kSmallLeNet, "reference", mixed("none") + clipped);
  narrow.step(0);
  set_loss_scaling(narrow, 4096, 0);
  const Numbers before = joined(narrow.trainer->weights());
  narrow.step();
  wide.step();
  Numbers a = joined(narrow.trainer->weights()), b = joined(wide.trainer->weights());
  for (size_t i = 0; i < before.size(); ++i) {
    a[i] -= before[i];
    b[i] -= before[i];
  }
  EXPECT_LT(test::relative_error(a, b), kTolerance);
}

TEST(MixedPrecisionErrors, ADeviceWithoutTheTypeIsRefused) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the cpu backend was not built";
  EXPECT_THAT(test::message_of<DeviceError>([] { Job job(kSmallLeNet, "cpu", mixed("f16")); }),
              testing::AllOf(HasSubstr("mixed_precision = \"f16\""), HasSubstr("float16"),
                             HasSubstr("cpu:0"), HasSubstr("operand is float16 [16, 16]"),
                             HasSubstr("use another device.backend")));
}

TEST(MixedPrecisionErrors, TheConfigurationMustFit) {
  EXPECT_THAT(test::message_of<ConfigurationError>([] {
                test::parse(kSmallLeNet, {{"training.mixed_precision", "bf16"}});
              }),
              HasSubstr("the weights beside 16-bit activations are float32"));
  EXPECT_THAT(
      test::message_of<ConfigurationError>([] {
        test::parse(kSmallLeNet, mixed("f16") + Settings{{"parallelism.update", "asynchronous"}});
      }),
      HasSubstr("use \"bf16\""));
}

TEST(MixedPrecisionMetrics, TellTheScaleAndTheSkippedSteps) {
  Metrics m;
  EXPECT_THAT(session::to_json(m), testing::Not(HasSubstr("loss_scale")));
  m.loss_scale = 32768;
  m.skipped_steps = 2;
  EXPECT_THAT(session::to_json(m), HasSubstr(R"("loss_scale":32768.0,"skipped_steps":2)"));
}

// ---- several ranks

// The losses of the steps; their gradients differ by the order of additions only.
Trace losses(const std::string& toml, int ranks, const Settings& settings) {
  Trace losses;
  for (auto& [name, tensor] : trace(toml, ranks, 8, settings).tensors) {
    if (name.ends_with(" loss")) losses.tensors.emplace(name, tensor);
  }
  return losses;
}

struct MeshForm {
  const char* name;
  int ranks, tensor, pipeline;
  Settings more = {};
};

class MixedPrecisionRanks : public testing::TestWithParam<MeshForm> {
 protected:
  void expect_one_ranks(const std::string& toml, const Settings& settings) {
    const MeshForm& form = GetParam();
    const Difference d = largest_difference(
        losses(toml, form.ranks, settings + mesh(form.tensor, form.pipeline) + form.more),
        losses(toml, 1, settings));
    EXPECT_LT(d.relative, kTolerance) << d.name;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Mesh, MixedPrecisionRanks,
    testing::Values(MeshForm{"Data2", 2, 1, 1}, MeshForm{"Tensor2", 2, 2, 1},
                    MeshForm{"Pipeline2", 2, 1, 2},
                    MeshForm{"Zero1", 2, 1, 1, {{"parallelism.zero_stage", "1"}}},
                    MeshForm{"Zero3", 2, 1, 1, {{"parallelism.zero_stage", "3"}}},
                    MeshForm{"Zero2Pipeline2", 4, 1, 2, {{"parallelism.zero_stage", "2"}}},
                    MeshForm{"Zero3Pipeline2", 4, 1, 2, {{"parallelism.zero_stage", "3"}}},
                    MeshForm{"Deterministic", 2, 1, 1, {{"debug.deterministic", "true"}}},
                    MeshForm{"Tensor2Pipeline2", 4, 2, 2}),
    [](const auto& info) { return info.param.name; });

TEST_P(MixedPrecisionRanks, GptInBf16) {
  const GptFile file;
  expect_one_ranks(file.toml(), mixed("bf16"));
}

TEST_P(MixedPrecisionRanks, LeNetInF16WithClipping) {
  expect_one_ranks(kSmallLeNet, mixed("f16") + Settings{{"training.max_norm", "1"}});
}

TEST(MixedPrecisionStatistics, OfBatchNormOverRanksAreThoseOfOne) {
  const Settings settings = mixed("bf16");
  const Difference d =
      largest_difference(losses(kSmallResNet, 2, settings), losses(kSmallResNet, 1, settings));
  EXPECT_LT(d.relative, kTolerance) << d.name;
}

}  // namespace
}  // namespace runtime::train
