// Compares FLOPs of models with numbers by hand.
#include "runtime/train/model_flops.h"

#include <gmock/gmock.h>

#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

double flops(const std::string& toml, const std::vector<config::Override>& overrides = {}) {
  return model_flops(Job(toml, "reference", overrides).programs->setup());
}

// A linear layer of n inputs and m outputs takes 2 n m forward, as much for the gradient of its
// weights, and as much for that of its inputs, except in the first layer.
TEST(ModelFlops, OfLinearLayersByHand) {
  EXPECT_EQ(flops(kTiny), 2 * (2 * 6 * 5 + 3 * 5 * 3));
  EXPECT_EQ(flops(kTiny, {{"model.freeze", "['fc1.*']"}}), 2 * (6 * 5 + 2 * 5 * 3))
      << "frozen parameters need no gradient";
}

// 4 filters of 3x3x2 over 4x4 pixels, then 64 x 3: forward, weights; and the inputs of the second.
TEST(ModelFlops, OfAConvolutionByHand) {
  const std::string toml = R"(
[model]
input = [2, 4, 4]
layers = [ { type = "conv2d", channels = 4, kernel = 3, padding = 1 }, { type = "flatten" },
           { type = "linear", features = 3 } ]
[dataset]
name = "synthetic"
samples = 20
classes = 3
[training]
global_batch_size = 8
)";
  EXPECT_EQ(flops(toml), 2 * (2 * 4 * 4 * 4 * 9 * 2 + 3 * 64 * 3));
}

TEST(ModelFlops, DoNotDependOnHowAStepIsComputed) {
  const std::string blocks = R"(
[model]
input = [6]
layers = [ { type = "embedding", vocabulary = 9, features = 8 },
  { type = "block", repeat = 2, layers = [
    { type = "residual", layers = [ { type = "layer_norm" }, { type = "linear", features = 24 },
      { type = "attention", heads = 2, causal = true }, { type = "linear", features = 8 } ] } ] },
  { type = "linear", features = 9 } ]
[dataset]
name = "synthetic"
task = "next_token"
samples = 20
classes = 9
[training]
global_batch_size = 8
)";
  // Tokens see (6 + 1) / 2 others on average; the scores are not counted again in the backward
  // pass.
  const double attention = 2 * (2 + 4) * 6 * 8 * 3.5;
  const double linear = 3 * 2 * 6 * (8 * 24 + 8 * 8);
  const double expected = 2 * (attention + linear) + 3 * 2 * 6 * 8 * 9;
  EXPECT_EQ(flops(blocks), expected);
  EXPECT_EQ(flops(blocks, {{"training.recompute", "blocks"}}), expected);
  EXPECT_EQ(flops(blocks, {{"training.micro_batch_size", "2"}}), expected);
  EXPECT_EQ(flops(blocks, {{"debug.deterministic", "true"}}), expected);
}

}  // namespace
}  // namespace runtime::train
