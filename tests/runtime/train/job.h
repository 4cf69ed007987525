// A trainer with its data, made from a few lines of TOML.
#ifndef TESTS_RUNTIME_TRAIN_JOB_H_
#define TESTS_RUNTIME_TRAIN_JOB_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/train/open.h"
#include "runtime/train/rank/step_programs.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::train {

using test::Numbers;

// The models for comparisons of backends, with data that can be learned.
inline const std::string kLeNet =
    "model.preset = \"lenet\"\ndataset.name = \"synthetic\"\ndataset.samples = 512\n"
    "dataset.classes = 10\ntraining.global_batch_size = 16\noptimizer.lr = 0.1\n";
inline const std::string kMlp =
    "model.preset = \"mlp\"\ndataset.name = \"synthetic\"\ndataset.samples = 512\n"
    "dataset.classes = 10\ntraining.global_batch_size = 16\noptimizer.lr = 0.05\n";
// Smooth activations, because behind batch normalisation, where large terms cancel, one activation
// that rounding puts on the other side of a ReLU changes a gradient by 1e-3 and more, in any two
// implementations.
inline const std::string kResidual = R"(
[model]
input = [3, 12, 12]
layers = [
  { type = "conv2d", channels = 16, kernel = 3, padding = 1, bias = false },
  { type = "batch_norm", activation = "tanh" },
  { type = "residual", activation = "tanh", layers = [
      { type = "conv2d", channels = 32, kernel = 3, stride = 2, padding = 1, bias = false },
      { type = "batch_norm", activation = "tanh" },
      { type = "conv2d", channels = 32, kernel = 3, padding = 1, bias = false },
      { type = "batch_norm" } ], shortcut = [
      { type = "conv2d", channels = 32, kernel = 1, stride = 2, bias = false }, { type = "batch_norm" } ] },
  { type = "max_pool2d", kernel = 2 },
  { type = "global_avg_pool" },
  { type = "linear", features = 10 },
]
[dataset]
name = "synthetic"
samples = 512
classes = 10
[training]
global_batch_size = 16
[optimizer]
lr = 0.1
)";
// Small enough for loops in double, written by hand.
inline const std::string kTiny = R"(
[model]
input = [6]
layers = [ { type = "linear", features = 5, activation = "tanh" }, { type = "linear", features = 3 } ]
[dataset]
name = "synthetic"
samples = 20
classes = 3
prefetch = 0
[training]
global_batch_size = 8
dtype = "float64"
[optimizer]
lr = 0.1
)";

struct Job {
  config::Config config;
  data::DatasetPair data;
  std::shared_ptr<StepPrograms> programs;
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<data::Loader> loader;

  Job(const std::string& toml, std::shared_ptr<plugins::host::Device> device,
      const std::vector<config::Override>& overrides = {})
      : config(test::parse(toml, overrides)), data(open_data(config, "/usr/share/datasets")) {
    programs =
        std::make_shared<StepPrograms>(RankSetup(config, data.train->spec(), std::move(device),
                                                 exec::CompileOptions{{.tune = exec::Tune::kOff}}));
    trainer = std::make_unique<Trainer>(programs);
    loader = std::make_unique<data::Loader>(data.train, train_loader_options(config));
  }
  Job(const std::string& toml, const std::string& backend,
      const std::vector<config::Override>& overrides = {})
      : Job(toml, test::open_device(backend), overrides) {}

  // Trains `count` steps on the next batches and returns their losses.
  Numbers step(int count = 1) {
    for (int i = 0; i < count; ++i) trainer->step(loader->next(), config.optimizer.lr);
    return losses();
  }
  Numbers losses() {
    Numbers list;
    while (const auto r = trainer->next_result(true)) list.push_back(r->loss);
    return list;
  }
};

// The elements of a float32 or float64 tensor as double.
inline Numbers numbers(const data::HostTensor& t) {
  const std::vector<std::byte> bytes = t.bytes;
  Numbers out(graph::element_count(t.dims));
  for (size_t i = 0; i < out.size(); ++i) {
    if (t.dtype == RT_FLOAT64) {
      out[i] = reinterpret_cast<const double*>(bytes.data())[i];
    } else {
      out[i] = reinterpret_cast<const float*>(bytes.data())[i];
    }
  }
  return out;
}

inline bool same_bits(const data::TensorFile& a, const data::TensorFile& b) {
  if (a.tensors.size() != b.tensors.size()) return false;
  for (const auto& [name, tensor] : a.tensors) {
    const auto it = b.tensors.find(name);
    if (it == b.tensors.end() || it->second.bytes != tensor.bytes) return false;
  }
  return true;
}

}  // namespace runtime::train

#endif  // TESTS_RUNTIME_TRAIN_JOB_H_
