#include "runtime/config/config.h"

#include <gmock/gmock.h>

#include "tests/runtime/config/support.h"

namespace runtime::config::test {
namespace {

using testing::ElementsAre;

TEST(Config, FillsDefaultsWhereAFileSaysNothing) {
  const Config config = read(kWhole);
  EXPECT_EQ(config.name, "test");
  EXPECT_EQ(config.device.backend, "auto");
  EXPECT_EQ(config.device.threads, 0);
  EXPECT_EQ(config.training.global_batch_size, 8);
  EXPECT_EQ(config.training.dtype, "float32");
  EXPECT_THAT(config.optimizer.betas, ElementsAre(0.9, 0.999));
  EXPECT_EQ(config.debug.seed, 42u);
  EXPECT_TRUE(config.dataset.shuffle);
}

TEST(Config, ReadsEverySection) {
  const Config config = read(R"(
job = { description = "d", dump_folder = "out" }
plugins = { path = ["/p"], require = ["cpu"] }
device = { backend = "cpu", index = 1, threads = 2, tune = "off", cpu = { winograd = true, n = 3 } }
validation = { every_epochs = 2 }
metrics = { log_every_steps = 5, progress = "off", jsonl = false }
debug = { seed = 9223372036854775807, deterministic = true, nan = "warn" }
optimizer = { name = "adamw", lr = 1, betas = [0.8, 0.9], eps = 1e-6, weight_decay = 0.1 }
lr_scheduler = { name = "step", step_size = 3, gamma = 0.5, warmup_steps = 7 }
[dataset]
format = "csv"
path = "a.csv"
target = "y"
task = "regression"
features = ["a", "b"]
standardize = true
validation_split = 0.25
[training]
global_batch_size = 16
steps = 100
dtype = "float64"
max_norm = 1
loss = "mean_squared_error"
[model]
input = [2]
init = { normal = 1 }
init_from = "/w.safetensors"
freeze = ["conv*"]
layers = [{ type = "linear", features = 1 }]
)");
  EXPECT_EQ(config.job.dump_folder, "out");
  EXPECT_THAT(config.plugins.path, ElementsAre("/p"));
  EXPECT_EQ(config.device.index, std::vector<int64_t>{1});
  EXPECT_EQ(config.device.options.at("cpu").at("winograd"), "true");
  EXPECT_EQ(config.device.options.at("cpu").at("n"), "3");
  EXPECT_EQ(config.debug.seed, 9223372036854775807u);
  EXPECT_EQ(config.optimizer.lr, 1.0);  // an integer is accepted as a number
  EXPECT_EQ(config.lr_scheduler.warmup_steps, 7);
  EXPECT_EQ(config.dataset.task, "regression");
  EXPECT_THAT(config.dataset.features, ElementsAre("a", "b"));
  EXPECT_EQ(config.training.steps, 100);
  EXPECT_EQ(config.model.init, (Init{"normal", 1}));
  EXPECT_EQ(config.model.init_from, "/w.safetensors");
}

TEST(Config, ErrorsHaveTheExitCodeOfConfigurations) {
  try {
    read("");
    FAIL() << "an empty configuration was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kConfiguration);
  }
}

TEST(Config, WritesTextThatReadsBackWithQuotesAndControlCharacters) {
  const Config config =
      read(kWhole + "job.description = \"a \\\"b\\\" \\\\ \\n \\t \\u007F \u00e9\"\n");
  const Config again = read(to_toml(config));
  EXPECT_EQ(again.job.description, "a \"b\" \\ \n \t \x7F \u00e9");
}

}  // namespace
}  // namespace runtime::config::test
