// A model cut over the tensor and pipeline axes of a mesh computes what one rank computes: every
// loss, every gradient, all weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/error.h"
#include "tests/runtime/train/job.h"
#include "tests/runtime/train/ranks_nets.h"

namespace runtime::train {
namespace {

constexpr int kSteps = 20;
constexpr double kFloat64Tolerance = 1e-9, kFloat32Tolerance = 1e-5;

// Krizhevsky, Sutskever and Hinton, 2012, for small images: two towers, dropout.
const std::string kSmallAlexNet = R"(
[model]
input = [3, 16, 16]
layers = [
  { type = "conv2d", channels = 8, kernel = 5, stride = 2, padding = 2, activation = "relu" },
  { type = "max_pool2d", kernel = 2 },
  { type = "conv2d", channels = 12, kernel = 3, padding = 1, groups = 2, activation = "relu" },
  { type = "conv2d", channels = 8, kernel = 3, padding = 1, groups = 2, activation = "relu" },
  { type = "max_pool2d", kernel = 2 },
  { type = "flatten" },
  { type = "dropout", probability = 0.3 },
  { type = "linear", features = 24, activation = "relu" },
  { type = "dropout", probability = 0.3 },
  { type = "linear", features = 24, activation = "relu" },
  { type = "linear", features = 4 },
]
)" + kData;

const std::string kSmallGpt = R"(
[model]
input = [6]
init = { normal = 0.2 }
layers = [
  { type = "embedding", name = "wte", vocabulary = 9, features = 8 },
  { type = "position_embedding", name = "wpe", length = 6 },
  { type = "dropout", probability = 0.1 },
  { type = "block", name = "h", repeat = 4, layers = [
    { type = "residual", prefix = false, layers = [
      { type = "layer_norm", name = "ln_1" },
      { type = "linear", name = "c_attn", features = 24 },
      { type = "attention", heads = 2, causal = true },
      { type = "linear", name = "c_proj", features = 8 } ] },
    { type = "residual", prefix = false, layers = [
      { type = "layer_norm", name = "ln_2" },
      { type = "linear", name = "c_fc", features = 16, activation = "gelu" },
      { type = "linear", name = "c_proj2", features = 8 },
      { type = "dropout", probability = 0.1 } ] },
  ] },
  { type = "layer_norm", name = "ln_f" },
  { type = "linear", name = "lm_head", features = 9, bias = false, tie = "wte" },
]
[training]
global_batch_size = 8
dtype = "float64"
[optimizer]
lr = 0.1
[device]
backend = "reference"
tune = "off"
[comm]
timeout_s = 60
[dataset]
format = "text"
tokenizer = "char"
path = ")";

// The text, in a file that goes with the object.
class GptFile {
 public:
  GptFile() {
    std::string text;
    for (uint32_t i = 0, x = 1; i < 400; ++i) {
      x = x * 1664525u + 1013904223u;
      text += static_cast<char>('a' + (i % 7 + (x >> 30) % 3) % 9);
    }
    std::ofstream(path_) << text;
  }
  ~GptFile() { std::filesystem::remove(path_); }
  std::string toml() const { return kSmallGpt + path_ + "\"\n"; }

 private:
  std::string path_ = testing::TempDir() + "mesh_" + std::to_string(::getpid()) + ".txt";
};

Settings mesh(int tensor, int pipeline) {
  return {{"parallelism.tensor", std::to_string(tensor)},
          {"parallelism.pipeline", std::to_string(pipeline)}};
}

const Settings kGpipe = {{"parallelism.pipeline_schedule", "\"gpipe\""}};

struct Form {
  const char* name;
  int ranks;
  Settings settings;
};

class Meshes : public testing::TestWithParam<Form> {
 protected:
  // `own`: of the ranks of the mesh, besides the form's.
  void expect_one_ranks(const std::string& toml, const Settings& settings = {},
                        const Settings& own = {}) {
    expect_close(toml, settings, own, kFloat64Tolerance, kSteps);
    if (test::has_backend("cpu"))
      expect_close(toml, settings + kFloat32, own, kFloat32Tolerance, 3);
  }

 private:
  void expect_close(const std::string& toml, const Settings& settings, const Settings& own,
                    double tolerance, int steps) {
    const Trace one = trace(toml, 1, steps, settings);
    const Trace many = trace(toml, GetParam().ranks, steps, settings + own + GetParam().settings);
    const Difference d = largest_difference(many, one);
    EXPECT_LT(d.relative, tolerance) << d.name;
    if (steps == kSteps) {
      EXPECT_LT(mean_loss(one, steps - 4, 4), mean_loss(one, 0, 4)) << "it has learned";
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Mesh, Meshes,
                         testing::Values(Form{"Tensor2", 2, mesh(2, 1)},
                                         Form{"Pipeline2", 2, mesh(1, 2)},
                                         Form{"Pipeline2Gpipe", 2, mesh(1, 2) + kGpipe},
                                         Form{"Pipeline4", 4, mesh(1, 4)},
                                         Form{"Pipeline4Gpipe", 4, mesh(1, 4) + kGpipe},
                                         Form{"Data2Tensor2", 4, mesh(2, 1)},
                                         Form{"Data2Pipeline2", 4, mesh(1, 2)},
                                         Form{"Tensor2Pipeline2", 4, mesh(2, 2)},
                                         Form{"Data2Tensor2Pipeline2", 8, mesh(2, 2)}),
                         [](const auto& info) { return info.param.name; });

TEST_P(Meshes, LeNet) { expect_one_ranks(kSmallLeNet); }

TEST_P(Meshes, AlexNet) { expect_one_ranks(kSmallAlexNet); }

// Statistics of batch normalisation are those of a micro-batch.
TEST_P(Meshes, ResNet) { expect_one_ranks(kSmallResNet, {}, {{"parallelism.microbatches", "1"}}); }

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
