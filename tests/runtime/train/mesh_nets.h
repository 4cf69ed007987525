// Networks and meshes for tests that cut one model over several ranks.
#ifndef TESTS_RUNTIME_TRAIN_MESH_NETS_H_
#define TESTS_RUNTIME_TRAIN_MESH_NETS_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/runtime/train/ranks_nets.h"

namespace runtime::train {

inline constexpr double kFloat64Tolerance = 1e-9, kFloat32Tolerance = 1e-5;

// With dropout of whole and of split values.
inline const std::string kSmallGpt = R"(
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
      { type = "dropout", probability = 0.1 },
      { type = "linear", name = "c_proj", features = 8 } ] },
    { type = "residual", prefix = false, layers = [
      { type = "layer_norm", name = "ln_2" },
      { type = "linear", name = "c_fc", features = 16, activation = "gelu" },
      { type = "dropout", probability = 0.1 },
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

// A file with the text, which the destructor removes.
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
  const std::string& path() const { return path_; }
  std::string toml() const { return kSmallGpt + path_ + "\"\n"; }

 private:
  std::string path_ = testing::TempDir() + "mesh_" + std::to_string(::getpid()) + ".txt";
};

inline Settings mesh(int tensor, int pipeline) {
  return {{"parallelism.tensor", std::to_string(tensor)},
          {"parallelism.pipeline", std::to_string(pipeline)}};
}

inline const Settings kGpipe = {{"parallelism.pipeline_schedule", "\"gpipe\""}};
inline const Settings kInterleaved = {{"parallelism.pipeline_schedule", "\"interleaved\""}};

}  // namespace runtime::train

#endif  // TESTS_RUNTIME_TRAIN_MESH_NETS_H_
