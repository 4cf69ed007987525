// Checks defaults, inheritance of optimizer groups, every section, and that text reads back.
#include "runtime/config/config.h"

#include <gmock/gmock.h>

#include "runtime/config/choices.h"
#include "tests/runtime/config/support.h"

namespace runtime::config::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Config, FillsDefaultsWhereAFileSaysNothing) {
  const Config config = read(kWhole);
  EXPECT_EQ(config.name, "test");
  EXPECT_EQ(config.device.backend, "auto");
  EXPECT_EQ(config.device.threads, 0);
  EXPECT_EQ(config.training.global_batch_size, 8);
  EXPECT_EQ(config.training.dtype, "float32");
  EXPECT_THAT(config.optimizer.betas, IsEmpty());
  EXPECT_EQ(config.debug.seed, 42u);
  EXPECT_TRUE(config.dataset.shuffle);
}

// What a group leaves out is as in [optimizer], but not the keys of another rule.
TEST(Config, GroupsOfTheOptimizerInherit) {
  const std::string groups = R"(
optimizer = { lr = 0.5, momentum = 0.9, weight_decay = 0.1, group = [
  { parameters = ["*.bias"], weight_decay = 0 },
  { parameters = ["head.*", "ln_?.*"], name = "adam", eps = 1e-6 } ] })";
  const Config config = read(kWhole + groups);
  ASSERT_EQ(config.optimizer.groups.size(), 2u);
  const OptimizerGroup& biases = config.optimizer.groups[0];
  const OptimizerGroup& head = config.optimizer.groups[1];
  EXPECT_THAT(biases.parameters, ElementsAre("*.bias"));
  EXPECT_EQ(biases.lr, 0.5);
  EXPECT_EQ(biases.momentum, 0.9);
  EXPECT_EQ(biases.weight_decay, 0);
  EXPECT_THAT(head.parameters, ElementsAre("head.*", "ln_?.*"));
  EXPECT_EQ(head.name, "adam");
  EXPECT_EQ(head.lr, 0.5);
  EXPECT_EQ(head.momentum, 0);
  EXPECT_EQ(head.weight_decay, 0.1);
  EXPECT_EQ(head.eps, 1e-6);
  const Config again = load_text(to_toml(config), "again", {}, "", model::layer_types());
  EXPECT_EQ(again.optimizer.groups, config.optimizer.groups);
}

// Without momentum there is nothing that its other keys could change.
TEST(Config, AGroupWithoutMomentumInheritsNoneOfItsKeys) {
  const Config config = read(std::string(kWhole) + R"(
optimizer = { lr = 0.5, momentum = 0.9, dampening = 0.5, group = [
  { parameters = ["*.bias"], momentum = 0 }, { parameters = ["*.weight"] } ] })");
  EXPECT_EQ(config.optimizer.groups[0].dampening, 0);
  EXPECT_EQ(config.optimizer.groups[1].dampening, 0.5);
  const Config again = load_text(to_toml(config), "again", {}, "", model::layer_types());
  EXPECT_EQ(again.optimizer.groups, config.optimizer.groups);
}

TEST(Config, EachRuleHasTheDefaultsOfItsAuthors) {
  const auto values = [](const UpdateRule& rule) {
    std::vector<double> numbers;
    for (const auto& [name, value] : attributes_of(rule))
      numbers.push_back(std::get<double>(value));
    return numbers;
  };
  UpdateRule rule;
  rule.name = "adam";
  EXPECT_THAT(values(rule), ElementsAre(0.9, 0.999, 1e-8)) << "beta1, beta2, eps";
  rule.eps = 1e-3;
  rule.betas = {0.5, 0.6};
  EXPECT_THAT(values(rule), ElementsAre(0.5, 0.6, 1e-3));
  rule = {};
  rule.name = "lion";
  EXPECT_THAT(values(rule), ElementsAre(0.9, 0.99, 0)) << "beta1, beta2, weight_decay";
  rule.name = "adagrad";
  EXPECT_THAT(values(rule), ElementsAre(1e-10, 0)) << "eps, initial_accumulator";
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
