// A device that refuses operations, beside one that runs them, computes what a device without
// refusals computes: the same bits, because the reference kernels are behind both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "runtime/train/rank/step_programs.h"
#include "tests/runtime/train/job.h"
#include "tests/runtime/train/mesh_nets.h"

namespace runtime::train {
namespace {

constexpr int kSteps = 6;  // more than an epoch: the last batch has fewer samples

const Settings kSimulated = {{"device.backend", "simulated"},
                             {"device.simulated.poison", "true"},
                             {"device.simulated.max_delay_us", "20"}};

// The forward or the backward operation of most pairs, products, losses and optimizers.
const char* const kSome =
    "conv2d,conv2d_backward_weights,avg_pool2d_backward,max_pool2d,global_avg_pool,batch_norm_"
    "statistics,batch_norm_backward,batch_norm_inference,layer_norm,attention_backward,embedding,"
    "activation_backward,cross_entropy_backward,square_sum,sgd,transpose,dropout";
// What is left to the device are its first kernels: matmul, add, copy and fill.
const char* const kMost =
    "conv2d,conv2d_backward_data,conv2d_backward_weights,max_pool2d,max_pool2d_backward,avg_pool2d,"
    "avg_pool2d_backward,global_avg_pool,global_avg_pool_backward,activation,activation_backward,"
    "subtract,multiply,divide,scale,dropout,reduce,square_sum,clip_scale,loss_scale,softmax,"
    "softmax_backward,log_softmax,log_softmax_backward,cross_entropy,cross_entropy_backward,"
    "cross_entropy_with_gradient,cross_entropy_statistics,cross_entropy_merge,"
    "cross_entropy_backward_apply,mean_squared_error,mean_squared_error_backward,correct_count,"
    "batch_norm,batch_norm_inference,batch_norm_backward,batch_norm_statistics,batch_norm_merge,"
    "batch_norm_apply,batch_norm_backward_statistics,batch_norm_backward_apply,layer_norm,"
    "layer_norm_backward,attention,attention_backward,embedding,embedding_backward,transpose,"
    "concat,slice,pad,cast,sgd,adamw";

// Adam, and clipping.
const Settings kGpt = {
    {"optimizer.name", "adamw"}, {"optimizer.lr", "0.003"}, {"training.max_norm", "0.5"}};

Settings refusing(const char* operations) {
  return kSimulated +
         Settings{{"device.simulated.refuse", operations}, {"device.host_fallback", "reference"}};
}

// Trains with and without refusals. The operations that ran elsewhere are added to `marked`.
void expect_same_bits(const std::string& toml, int ranks, const char* refused,
                      const Settings& settings = {}) {
  const Trace whole = trace(toml, ranks, kSteps, kSimulated + settings);
  TraceOptions options = traced(toml, ranks, kSteps, refusing(refused) + settings);
  std::set<std::string> moved, own;
  std::vector<std::string> notes;
  options.after_step = [&](StepPrograms& programs, Trainer&, int rank, int) {
    if (rank != 0) return;
    for (const graph::Node& node : programs.any_compiled().graph().nodes)
      (node.on_fallback ? moved : own).insert(node.op);
    notes = programs.notes();
  };
  EXPECT_TRUE(same_bits(record(options).trace, whole)) << refused;
  EXPECT_GE(moved.size(), 4u) << "operations fall back";
  EXPECT_FALSE(own.empty()) << "the device computes, too";
  // A loss is fused with its gradient and a convolution with its pooling behind the pass that names
  // what falls back.
  for (const char* fused : {RT_OP_CROSS_ENTROPY_WITH_GRADIENT, RT_OP_CONV2D_POOL2D,
                            RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS})
    moved.erase(fused);
  for (const std::string& op : moved)
    EXPECT_THAT(notes, testing::Contains(testing::StartsWith(op + " runs on reference:0: "
                                                                  "simulated:0 refuses ")));
}

struct Net {
  const char* name;
  std::string toml;
  Settings settings = {};
};

const GptFile kFile;

class Fallback : public testing::TestWithParam<Net> {};

INSTANTIATE_TEST_SUITE_P(Nets, Fallback,
                         testing::Values(Net{"LeNet", kSmallLeNet}, Net{"ResNet", kSmallResNet},
                                         Net{"Gpt", kFile.toml(), kGpt}),
                         [](const auto& info) { return info.param.name; });

TEST_P(Fallback, OneRankSomeOperations) {
  expect_same_bits(GetParam().toml, 1, kSome, GetParam().settings);
}
TEST_P(Fallback, OneRankMostOperations) {
  expect_same_bits(GetParam().toml, 1, kMost, GetParam().settings);
}
TEST_P(Fallback, TwoRanks) { expect_same_bits(GetParam().toml, 2, kMost, GetParam().settings); }
TEST_P(Fallback, InFloat32) {
  expect_same_bits(GetParam().toml, 2, kSome,
                   GetParam().settings + Settings{{"training.dtype", "float32"}});
}

// Forms of a step in which nodes are copied, split, or replaced after they have been marked.
TEST(FallbackForms, Zero) {
  expect_same_bits(kFile.toml(), 2, kMost, kGpt + Settings{{"parallelism.zero_stage", "3"}});
  expect_same_bits(kSmallLeNet, 2, kMost,
                   {{"parallelism.zero_stage", "2"}, {"training.max_norm", "0.05"}});
}
TEST(FallbackForms, Pipeline) {
  expect_same_bits(kSmallLeNet, 2, kMost,
                   {{"parallelism.pipeline", "2"}, {"parallelism.microbatches", "3"}});
}
TEST(FallbackForms, Tensor) { expect_same_bits(kFile.toml(), 2, kMost, kGpt + mesh(2, 1)); }
TEST(FallbackForms, Recompute) {
  expect_same_bits(kSmallResNet, 1, kSome, {{"training.recompute", "blocks"}});
  expect_same_bits(kFile.toml(), 1, kMost, kGpt + Settings{{"training.recompute", "blocks"}});
}
TEST(FallbackForms, MicroSteps) {
  expect_same_bits(kSmallLeNet, 1, kMost, {{"training.micro_batch_size", "2"}});
}
TEST(FallbackForms, Deterministic) {
  expect_same_bits(kSmallResNet, 2, kSome, {{"debug.deterministic", "true"}});
}
TEST(FallbackForms, SixteenBits) {
  expect_same_bits(
      kFile.toml(), 2, kMost,
      kGpt + Settings{{"training.dtype", "float32"}, {"training.mixed_precision", "bf16"}});
}

// What gives other bits every time cannot run on the device in deterministic mode, but elsewhere.
TEST(FallbackForms, DeterministicKernelsOfTheOther) {
  const Settings deterministic = {{"debug.deterministic", "true"}};
  const Settings varying = {{"device.simulated.varying", "matmul,conv2d_backward_weights"},
                            {"device.host_fallback", "reference"}};
  EXPECT_TRUE(same_bits(trace(kSmallLeNet, 2, kSteps, kSimulated + deterministic + varying),
                        trace(kSmallLeNet, 2, kSteps, kSimulated + deterministic)));
}

}  // namespace
}  // namespace runtime::train
