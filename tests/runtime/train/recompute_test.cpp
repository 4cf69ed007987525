// Steps that recompute activations give the same bits as those that keep them, in less memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

const std::vector<config::Override> kRecompute = {{"training.recompute", "blocks"}};

// With dropout, layer_norm, saved operands, and a branch inside a branch.
const std::string kDeepMlp = R"(
[model]
input = [32]
layers = [
  { type = "block", repeat = 12, layers = [
      { type = "linear", features = 128, activation = "gelu" },
      { type = "residual", layers = [
          { type = "layer_norm" },
          { type = "linear", features = 256, activation = "relu" },
          { type = "dropout", probability = 0.2 },
          { type = "linear", features = 128 } ] },
      { type = "linear", features = 32, activation = "tanh" } ] },
  { type = "linear", features = 4 },
]
[dataset]
name = "synthetic"
samples = 256
classes = 4
[training]
global_batch_size = 128
[optimizer]
lr = 0.05
)";

class RecomputeTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!test::has_backend(GetParam())) GTEST_SKIP() << GetParam() << " was not built";
  }
  // Kept and recomputed activations give the same losses, gradients and weights.
  static void expect_same(const std::string& toml, std::vector<config::Override> settings = {}) {
    Job kept(toml, GetParam(), settings);
    settings.insert(settings.end(), kRecompute.begin(), kRecompute.end());
    Job again(toml, GetParam(), settings);
    EXPECT_EQ(again.step(4), kept.step(4));
    EXPECT_TRUE(same_bits(again.trainer->weights(), kept.trainer->weights()));
    const data::Batch& batch = kept.loader->next();
    EXPECT_TRUE(same_bits(again.trainer->gradients(batch), kept.trainer->gradients(batch)));
    EXPECT_GT(again.programs->any_compiled().program->graph().nodes.size(),
              kept.programs->any_compiled().program->graph().nodes.size());
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, RecomputeTest, testing::Values("reference", "cpu", "simulated"),
                         [](const auto& info) { return info.param; });

TEST_P(RecomputeTest, DeepMlpHasTheSameBits) { expect_same(kDeepMlp); }

TEST_P(RecomputeTest, ResidualNetworkHasTheSameBitsAndStatistics) { expect_same(kResidual); }

TEST_P(RecomputeTest, MicroStepsHaveTheSameBits) {
  expect_same(kResidual, {{"training.micro_batch_size", "4"}});
}

TEST_P(RecomputeTest, ActivationsNeedAFractionOfTheMemory) {
  Job kept(kDeepMlp, GetParam()), again(kDeepMlp, GetParam(), kRecompute);
  const uint64_t before = kept.programs->any_compiled().program->memory().arena;
  const uint64_t after = again.programs->any_compiled().program->memory().arena;
  RecordProperty("arena_kept", std::to_string(before));
  RecordProperty("arena_recomputed", std::to_string(after));
  EXPECT_LT(static_cast<double>(after), 0.35 * static_cast<double>(before))
      << before << " " << after;
}

TEST(Recompute, NeedsABlock) {
  EXPECT_THAT(test::message_of<ConfigurationError>([] { Job job(kTiny, "reference", kRecompute); }),
              testing::HasSubstr("neither a residual nor a repeated block"));
}

}  // namespace
}  // namespace runtime::train
