// Small networks and settings for tests that compare numbers of ranks.
#ifndef TESTS_RUNTIME_TRAIN_RANKS_NETS_H_
#define TESTS_RUNTIME_TRAIN_RANKS_NETS_H_

#include <string>
#include <vector>

#include "tests/runtime/support/devices.h"
#include "tests/runtime/train/ranks_trace.h"
#include "tests/runtime/train/settings.h"

namespace runtime::train {

// 29 samples in batches of 7: the last batch has 1 sample, fewer than there are ranks. 751 samples
// in batches of 250 leave 1 as well.
inline const std::string kData = R"(
[dataset]
name = "synthetic"
samples = 29
classes = 4
[training]
global_batch_size = 7
dtype = "float64"
[optimizer]
lr = 0.1
[device]
backend = "reference"
tune = "off"
[comm]
timeout_s = 60
)";
inline const std::string kSmallLeNet = R"(
[model]
input = [1, 12, 12]
layers = [
  { type = "conv2d", name = "conv1", channels = 4, kernel = 3, activation = "relu" },
  { type = "avg_pool2d", kernel = 2 },
  { type = "conv2d", name = "conv2", channels = 8, kernel = 2, activation = "relu" },
  { type = "avg_pool2d", kernel = 2 },
  { type = "flatten" },
  { type = "linear", name = "fc1", features = 16, activation = "relu" },
  { type = "linear", name = "fc2", features = 4 },
]
)" + kData;
// Behind batch normalisation ReLU amplifies rounding differences (see job.h); tanh does not.
inline const std::string kSmallResNet = R"(
[model]
input = [2, 6, 6]
layers = [
  { type = "conv2d", channels = 4, kernel = 3, padding = 1, bias = false },
  { type = "batch_norm", activation = "tanh" },
  { type = "residual", activation = "tanh", layers = [
      { type = "conv2d", channels = 4, kernel = 3, padding = 1, bias = false },
      { type = "batch_norm", activation = "tanh" },
      { type = "conv2d", channels = 4, kernel = 3, padding = 1, bias = false },
      { type = "batch_norm" } ] },
  { type = "residual", activation = "tanh", layers = [
      { type = "conv2d", channels = 6, kernel = 3, stride = 2, padding = 1, bias = false },
      { type = "batch_norm", activation = "tanh" },
      { type = "conv2d", channels = 6, kernel = 3, padding = 1, bias = false },
      { type = "batch_norm" } ], shortcut = [
      { type = "conv2d", channels = 6, kernel = 1, stride = 2, bias = false }, { type = "batch_norm" } ] },
  { type = "global_avg_pool" },
  { type = "linear", features = 4 },
]
[parallelism]
sync_batch_norm = true
)" + kData;

inline const Settings kLargeBatch = {{"training.global_batch_size", "250"},
                                     {"dataset.samples", "751"}};
inline const Settings kFloat32 = {{"training.dtype", "float32"}, {"device.backend", "cpu"}};

inline std::string plugin_folders() {
  return std::string("[\"") + PLUGIN_FOLDER + "\", \"" + TEST_PLUGIN_FOLDER + "\"]";
}

// Options of a run whose ranks are threads of this process and use the collectives plugin `local`.
inline TraceOptions traced(const std::string& toml, int ranks, int steps,
                           const Settings& settings = {}) {
  TraceOptions o;
  o.config = test::parse(toml, Settings{{"plugins.path", plugin_folders()},
                                        {"comm.backend", "local"},
                                        {"launch.ranks", std::to_string(ranks)}} +
                                   settings);
  o.steps = steps;
  return o;
}

inline Trace trace(const std::string& toml, int ranks, int steps, const Settings& settings = {}) {
  return record(traced(toml, ranks, steps, settings)).trace;
}

// Krizhevsky, Sutskever and Hinton, 2012, for small images: two towers, dropout.
inline const std::string kSmallAlexNet = R"(
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

}  // namespace runtime::train

#endif  // TESTS_RUNTIME_TRAIN_RANKS_NETS_H_
