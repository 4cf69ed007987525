// A model that is cut over the tensor and pipeline axes of a mesh computes what one rank computes:
// every loss, every gradient, all weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/train/llama_net.h"
#include "tests/runtime/train/mesh_nets.h"

namespace runtime::train {
namespace {

constexpr int kSteps = 20;

struct MeshForm {
  const char* name;
  int data, tensor, pipeline;
  Settings schedule = {};

  int ranks() const { return data * tensor * pipeline; }
  Settings settings() const { return mesh(tensor, pipeline) + schedule; }
};

class Meshes : public testing::TestWithParam<MeshForm> {
 protected:
  void expect_one_ranks(const std::string& toml, const Settings& settings = {},
                        const Settings& of_mesh = {}, const Settings& of_one = {},
                        int one_ranks = 1) {
    const auto run = [&](const Settings& type, int steps, double tolerance) {
      const Trace one = trace(toml, one_ranks, steps, settings + type + of_one);
      const Settings own = settings + type + of_mesh + GetParam().settings();
      const Difference d = largest_difference(trace(toml, GetParam().ranks(), steps, own), one);
      EXPECT_LT(d.relative, tolerance) << d.name;
      if (steps == kSteps) {
        EXPECT_LT(mean_loss(one, steps - 4, 4), mean_loss(one, 0, 4)) << "it has learned";
      }
    };
    run({}, kSteps, kFloat64Tolerance);
    if (test::has_backend("cpu")) run(kFloat32, 3, kFloat32Tolerance);
  }
};

INSTANTIATE_TEST_SUITE_P(
    Mesh, Meshes,
    testing::Values(MeshForm{"Tensor2", 1, 2, 1}, MeshForm{"Pipeline2", 1, 1, 2},
                    MeshForm{"Pipeline2Gpipe", 1, 1, 2, kGpipe},
                    MeshForm{"Pipeline2Interleaved", 1, 1, 2, kInterleaved},
                    MeshForm{"Pipeline4", 1, 1, 4}, MeshForm{"Pipeline4Gpipe", 1, 1, 4, kGpipe},
                    MeshForm{"Data2Tensor2", 2, 2, 1}, MeshForm{"Data2Pipeline2", 2, 1, 2},
                    MeshForm{"Tensor2Pipeline2", 1, 2, 2},
                    MeshForm{"Data2Tensor2Pipeline2", 2, 2, 2}),
    [](const auto& info) { return info.param.name; });

TEST_P(Meshes, LlamaWithPackedDocuments) {
  const GptFile text;
  expect_one_ranks(small_llama(text, 2), {{"dataset.validation_split", "0.1"}});
}

// There are more ranks than heads of keys.
TEST_P(Meshes, LlamaWithOneHeadOfKeys) {
  const GptFile text;
  expect_one_ranks(small_llama(text, 1));
}

TEST_P(Meshes, LeNet) {
  expect_one_ranks(kSmallLeNet, {{"dataset.validation_split", "0.2"}, {"dataset.samples", "36"}});
}

TEST_P(Meshes, AlexNet) { expect_one_ranks(kSmallAlexNet); }

// Batch normalisation uses the statistics of a micro-batch. So the micro-batches of a pipeline are
// compared with micro-steps of data-parallel ranks, which ranks_test compares with one rank.
TEST_P(Meshes, ResNet) {
  if (GetParam().pipeline == 1) return expect_one_ranks(kSmallResNet);
  expect_one_ranks(kSmallResNet, {{"training.global_batch_size", "8"}, {"dataset.samples", "32"}},
                   {{"parallelism.microbatches", "2"}},
                   {{"training.micro_batch_size", std::to_string(4 / GetParam().data)}},
                   GetParam().data);
}

TEST_P(Meshes, PenaltiesMomentumAndClipping) {
  const std::string toml = R"(
[model]
input = [6]
layers = [
  { type = "linear", features = 12, activation = "tanh", l2 = 0.05 },
  { type = "linear", features = 8, activation = "tanh" },
  { type = "linear", features = 8, activation = "tanh" },
  { type = "linear", features = 4, l2 = 0.1 },
]
)" + kData;
  expect_one_ranks(toml, {{"optimizer.momentum", "0.9"}, {"training.max_norm", "0.1"}});
}

TEST_P(Meshes, Gpt) {
  const GptFile file;
  expect_one_ranks(file.toml());
}

}  // namespace
}  // namespace runtime::train
