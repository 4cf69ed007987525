// Every file of configs/ can be loaded, and its resolved form gives the same configuration.
#include <gmock/gmock.h>

#include "runtime/config/config.h"
#include "runtime/config/format.h"
#include "runtime/config/schema.h"
#include "runtime/config/toml_text.h"
#include "tests/runtime/config/support.h"

namespace runtime::config::test {
namespace {

namespace fs = std::filesystem;

void expect_same(const std::vector<Layer>& a, const std::vector<Layer>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].type, b[i].type);
    ASSERT_EQ(a[i].values.size(), b[i].values.size());
    for (const auto& [key, value] : a[i].values)
      EXPECT_EQ(toml_text(value), toml_text(b[i].values.at(key))) << key;
    ASSERT_EQ(a[i].lists.size(), b[i].lists.size());
    for (const auto& [key, list] : a[i].lists) expect_same(list, b[i].lists.at(key));
  }
}

// Compares the members of two configurations one by one.
void expect_same(Config a, Config b) {
  for (const Section& section : sections()) {
    for (const Key& key : section.keys) {
      if (key.name == "preset") continue;  // the resolved form has the layers of the preset instead
      std::visit(
          [&](auto* member) {
            using Member = decltype(member);
            const auto& other = *std::get<Member>(key.field(b));
            if constexpr (std::is_same_v<Member, std::vector<Layer>*>) {
              expect_same(*member, other);
            } else {
              EXPECT_EQ(*member, other) << section.name << "." << key.name;
            }
          },
          key.field(a));
    }
  }
}

void expect_round_trip(const Config& config) {
  const std::string text = to_toml(config);
  const Config again = load_text(text, config.name, {}, "", model::layer_types());
  expect_same(config, again);
  EXPECT_EQ(config.device.options, again.device.options);
  EXPECT_EQ(to_toml(again), text);
}

std::vector<std::string> config_files() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(CONFIGS_FOLDER)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
  }
  return files;
}

TEST(Files, EveryConfigurationLoadsAndReadsBackTheSame) {
  const auto files = config_files();
  EXPECT_GE(files.size(), 9u);
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    expect_round_trip(load(file, {}, presets(), model::layer_types()));
  }
}

TEST(Files, EveryPresetLoadsAndReadsBackTheSame) {
  for (const auto& entry : fs::directory_iterator(presets())) {
    SCOPED_TRACE(entry.path());
    expect_round_trip(
        read(kDataset + kTraining + "model.preset = \"" + entry.path().stem().string() + "\"\n"));
  }
}

TEST(Files, EveryKeyReadsBackTheSame) {
  expect_round_trip(read(R"(
job = { description = "d\n\"e\"", dump_folder = "out" }
plugins = { path = ["p", "/q"], require = ["cpu"] }
device = { backend = "x", index = 1, threads = 2, tune = "off", "a.b" = { c = 1.5, "d e" = "f\\" } }
validation.every_epochs = 0
metrics = { log_every_steps = 5, progress = "lines", jsonl = false }
debug = { seed = 1, deterministic = true, nan = "warn" }
optimizer = { lr = 0.1, momentum = 0.3333333333333333, nesterov = true, weight_decay = 1e-300 }
lr_scheduler = { name = "step", step_size = 3, gamma = 0.5, warmup_steps = 7 }
training = { global_batch_size = 1, steps = 9, dtype = "float64", max_norm = 0.5, loss = "auto" }
[dataset]
format = "npy"
path = "x.npy"
target_path = "y.npy"
validation_path = "vx.npy"
validation_target_path = "vy.npy"
last_batch = "pad"
shuffle = false
prefetch = 0
classes = 3
resize = [4, 5]
mean = [0.1, 0.2]
std = [1, 2.5]
[model]
input = [2, 8, 8]
init = { constant = -1 }
outputs = 12
dropout = 0.25
init_from = "w.safetensors"
init_except = ["c.*"]
freeze = ["a*", "b"]
layers = [
  { type = "conv2d", channels = 4, kernel = [3, 5], stride = [1, 2], padding = "same", groups = 2, bias = false, activation = "gelu", name = "c", l2 = 0.25, repeat = 2, init = { uniform = 0.1 }, dilation = 2 },
  { type = "max_pool2d", kernel = 3, padding = [1, 2] },
  { type = "avg_pool2d", kernel = 2, stride = 1, count_include_pad = false },
  { type = "residual", layers = [{ type = "block", layers = [{ type = "relu" }], repeat = 3 }], shortcut = [{ type = "batch_norm", eps = 1e-3 }], activation = "tanh" },
  { type = "embedding", vocabulary = 7, features = 3, init = "xavier_normal" },
  { type = "position_embedding", length = 9, init = { normal = 0.02 } }, { type = "attention", heads = 3, causal = true },
  { type = "block", name = "h", prefix = false, layers = [{ type = "linear", features = 3, file_layout = "in_out", shard = "auto" }] },
  { type = "linear", features = 7, tie = "wte" }, { type = "adaptive_avg_pool2d", size = [2, 3] }, { type = "image_to_tokens" },
  { type = "dropout", probability = 0 }, { type = "layer_norm" }, { type = "softmax" },
]
)"));
}

}  // namespace
}  // namespace runtime::config::test
