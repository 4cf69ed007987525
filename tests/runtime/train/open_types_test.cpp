// Layers and optimizers that a plugin brings (plugins/examples/operation_set) in whole trainings:
// against loops and layers of the core, in float64, and on several ranks.
#include "runtime/train/open_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/error.h"
#include "runtime/step/optimizer.h"
#include "tests/runtime/train/job.h"
#include "tests/runtime/train/ranks_nets.h"

namespace runtime::train {
namespace {

using testing::HasSubstr;

// The plugin is named by file; those of the build are in `plugins.path` where a job has ranks.
const std::string kPlugin = FIXTURE_FOLDER "/liboperation_set.so";
const config::Override kPath = {"plugins.path", "[\"" + kPlugin + "\"]"};
const config::Override kRanksPath = {"plugins.path", std::string("[\"") + PLUGIN_FOLDER + "\", \"" +
                                                         TEST_PLUGIN_FOLDER + "\", \"" + kPlugin +
                                                         "\"]"};

const std::string kOpenNet = R"(
[model]
input = [6]
layers = [
  { type = "extra.gated_linear", features = 12 },
  { type = "residual", layers = [
    { type = "extra.rms_norm", eps = 1e-3 },
    { type = "linear", features = 12 },
    { type = "extra.swish", beta = 1.5 } ] },
  { type = "extra.rms_norm", name = "last", repeat = 2, activation = "tanh" },
  { type = "linear", features = 4 },
]
)" + kData;

TEST(OpenLayers, HaveParametersWithNamesAndInitialValues) {
  Job job(kOpenNet, "reference", {kPath, {"model.init", "{ constant = 0.5 }"}});
  const data::TensorFile weights = job.trainer->weights();
  std::vector<std::string> names;
  for (const auto& [name, tensor] : weights.tensors) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "fc1.bias", "fc1.weight", "gated_linear1.opening", "gated_linear1.value",
                       "last.0.weight", "last.1.weight", "residual1.fc1.bias",
                       "residual1.fc1.weight", "residual1.rms_norm1.weight"}));
  EXPECT_EQ(weights.tensors.at("gated_linear1.value").dims, (std::vector<int64_t>{12, 6}));
  EXPECT_EQ(numbers(weights.tensors.at("gated_linear1.value")), Numbers(72, 0.5));
  EXPECT_EQ(numbers(weights.tensors.at("last.0.weight")), Numbers(12, 1));
}

TEST(OpenLayers, ComputeWhatALoopComputes) {
  const std::string net = R"(
[model]
input = [6]
layers = [ { type = "extra.swish", beta = 1.5 }, { type = "extra.rms_norm", eps = 0.125 } ]
)" + kData;
  Job job(net, "reference", {kPath, {"dataset.classes", "6"}, {"training.global_batch_size", "7"}});
  const data::Batch& batch = job.loader->next();
  const Numbers out = numbers(job.trainer->gradients(batch).tensors.at("logits"));
  Numbers expected;
  for (int64_t row = 0; row < batch.rows; ++row) {
    double y[6], squares = 0;
    for (int64_t i = 0; i < 6; ++i) {
      const double x = batch.features[row * 6 + i];
      y[i] = x / (1 + std::exp(-1.5 * x));
      squares += y[i] * y[i];
    }
    for (const double v : y) expected.push_back(v / std::sqrt(squares / 6 + 0.125));
  }
  EXPECT_LT(test::relative_error(out, expected), 1e-12);
}

// ---- several ranks

class OpenRanks : public testing::TestWithParam<Settings> {};

INSTANTIATE_TEST_SUITE_P(Meshes, OpenRanks,
                         testing::Values(Settings{}, Settings{{"parallelism.zero_stage", "1"}},
                                         Settings{{"parallelism.zero_stage", "2"}},
                                         Settings{{"parallelism.zero_stage", "3"}},
                                         Settings{{"parallelism.tensor", "2"}},
                                         Settings{{"parallelism.pipeline", "2"}},
                                         Settings{{"training.micro_batch_size", "1"},
                                                  {"training.recompute", "blocks"}}));

TEST_P(OpenRanks, ComputeWhatOneRankComputes) {
  for (const char* optimizer : {"extra.adabelief", "extra.signum"}) {
    const Settings common = {kRanksPath,
                             {"comm.bucket_mb", "0.0005"},
                             {"optimizer.name", optimizer},
                             {"optimizer.lr", "0.01"},
                             {"optimizer.weight_decay", "0.1"},
                             {"training.max_norm", "0.5"}};
    const Trace one = trace(kOpenNet, 1, 8, common);
    EXPECT_LT(mean_loss(one, 6, 2), mean_loss(one, 0, 2)) << "it has learned";
    const Difference d = largest_difference(trace(kOpenNet, 2, 8, common + GetParam()), one);
    EXPECT_LT(d.relative, 1e-9) << optimizer << ": " << d.name;
  }
}

// ---- optimizers

// Trains kTiny, and calls update(step from 1, is a matrix, weight, gradient, two numbers of state)
// for each element in a loop; the weights must agree.
template <typename Update>
void compare(const Settings& settings, Update update) {
  Job job(kTiny, "reference", settings + Settings{kPath});
  std::map<std::string, Numbers> weights, first, second;
  for (const auto& [name, t] : job.trainer->weights().tensors) weights[name] = numbers(t);
  for (const auto& [name, w] : weights) first[name] = second[name] = Numbers(w.size(), 0);
  for (int step = 1; step <= 6; ++step) {
    const data::Batch& batch = job.loader->next();
    const data::TensorFile gradients = job.trainer->gradients(batch);
    for (auto& [name, w] : weights) {
      const Numbers g = numbers(gradients.tensors.at(name));
      for (size_t i = 0; i < w.size(); ++i)
        update(step, name, w[i], g[i], first[name][i], second[name][i]);
    }
    job.trainer->step(batch, job.config.optimizer.lr);
    for (const auto& [name, t] : job.trainer->weights().tensors)
      EXPECT_LT(test::relative_error(numbers(t), weights.at(name)), 1e-12) << name << step;
  }
}

void adabelief(int step, double lr, double decay, double& w, double g, double& m, double& s) {
  m = 0.8 * m + 0.2 * g;
  s = 0.95 * s + 0.05 * (g - m) * (g - m) + 1e-6;
  w = w * (1 - decay * lr) -
      lr * m / (1 - std::pow(0.8, step)) / (std::sqrt(s / (1 - std::pow(0.95, step))) + 1e-6);
}

const Settings kAdabelief = {{"optimizer.name", "extra.adabelief"},
                             {"optimizer.extra.beta1", "0.8"},
                             {"optimizer.extra.beta2", "0.95"},
                             {"optimizer.extra.epsilon", "1e-6"},
                             {"optimizer.weight_decay", "0.2"}};

TEST(OpenOptimizers, AdaBelief) {
  compare(kAdabelief, [](int step, const std::string&, double& w, double g, double& m, double& s) {
    adabelief(step, 0.1, 0.2, w, g, m, s);
  });
}

// The core adds weight decay to the gradient, as signum has no attribute of that name.
TEST(OpenOptimizers, SignumWithWeightDecay) {
  compare({{"optimizer.name", "extra.signum"}, {"optimizer.weight_decay", "0.2"}},
          [](int, const std::string&, double& w, double g, double& m, double&) {
            m = 0.9 * m + 0.1 * (g + 0.2 * w);
            w -= 0.1 * (m > 0 ? 1 : m < 0 ? -1 : 0);
          });
}

TEST(OpenOptimizers, ValuesAreClipped) {
  compare({{"optimizer.name", "extra.signum"},
           {"optimizer.extra.momentum", "0.5"},
           {"training.max_value", "0.01"}},
          [](int, const std::string&, double& w, double g, double& m, double&) {
            m = 0.5 * m + 0.5 * std::min(std::max(g, -0.01), 0.01);
            w -= 0.1 * (m > 0 ? 1 : m < 0 ? -1 : 0);
          });
}

TEST(OpenOptimizers, GroupsHaveRulesOfTheirOwn) {
  const config::Override groups = {
      "optimizer.group",
      R"([{ parameters = ["fc1.*"], name = "sgd", lr = 0.05, weight_decay = 0 }, )"
      R"({ parameters = ["*.bias"], lr = 0.2 }])"};
  compare(kAdabelief + Settings{groups},
          [](int step, const std::string& name, double& w, double g, double& m, double& s) {
            if (name.starts_with("fc1.")) {
              w -= 0.05 * g;
            } else {
              adabelief(step, name.ends_with(".bias") ? 0.2 : 0.1, 0.2, w, g, m, s);
            }
          });
}

TEST(OpenOptimizers, TheirStateHasTheirName) {
  const config::Config config = test::parse(kTiny, kAdabelief + Settings{kPath});
  EXPECT_EQ(step::optimizer_state(config.optimizer),
            (std::vector<std::string>{"extra.adabelief.m", "extra.adabelief.s"}));
}

// The same text again gives the same training.
TEST(OpenOptimizers, AResolvedConfigurationLoadsAgain) {
  const config::Config config = test::parse(kTiny, kAdabelief + Settings{kPath});
  const config::Config again = test::parse(config::to_toml(config));
  EXPECT_EQ(again.optimizer.attributes, config.optimizer.attributes);
  EXPECT_EQ(config::to_toml(again), config::to_toml(config));
}

// ---- 16 bits

TEST(OpenLayers, StayInFloat32BesideSixteenBitActivations) {
  const Settings common = {
      kPath, {"training.dtype", "float32"}, {"optimizer.name", "extra.adabelief"}};
  Job wide(kOpenNet, "reference", common);
  const Numbers expected = wide.step(5);
  for (const char* type : {"bf16", "f16"}) {
    Job narrow(kOpenNet, "reference", common + Settings{{"training.mixed_precision", type}});
    const Numbers losses = narrow.step(5);
    for (size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], expected[i], 0.02 * expected[i]) << type;
  }
}

// ---- faults

TEST(OpenTypes, WrongNamesAndKeysNameTheNearest) {
  const auto message = [](const Settings& settings, const std::string& toml = kOpenNet) {
    return test::message_of<ConfigurationError>(
        [&] { test::parse(toml, settings + Settings{kPath}); });
  };
  const auto layers = [](const std::string& layer) {
    return Settings{{"model.layers", "[" + layer + "]"}};
  };
  EXPECT_THAT(message(layers("{ type = \"extra.swsh\" }")),
              HasSubstr("did you mean \"extra.swish\"?"));
  EXPECT_THAT(message(layers("{ type = \"extra.swish\", bta = 2 }")),
              HasSubstr("model.layers[0].bta: unknown key of extra.swish, did you mean \"beta\"?"));
  EXPECT_THAT(message(layers("{ type = \"extra.gated_linear\" }")),
              HasSubstr("features: missing: a extra.gated_linear needs it"));
  EXPECT_THAT(message(layers("{ type = \"extra.gated_linear\", features = 1.5 }")),
              HasSubstr("expected integer"));
  EXPECT_THAT(message({{"optimizer.name", "extra.adabelif"}}),
              HasSubstr("did you mean \"extra.adabelief\"?"));
  EXPECT_THAT(message({{"optimizer.name", "extra.signum"}, {"optimizer.extra.momentm", "1"}}),
              HasSubstr("optimizer.extra.momentm: unknown key, did you mean \"momentum\"?"));
  EXPECT_THAT(message({{"optimizer.extra.momentum", "0.5"}}),
              HasSubstr("optimizer.extra: is not used"));
  EXPECT_THAT(message({{"optimizer.name", "extra.signum"}, {"optimizer.momentum", "0.5"}}),
              HasSubstr("is not used by extra.signum"));
}

TEST(OpenTypes, AParameterOfNoPossibleSizeIsTheConfigurations) {
  const std::string message = test::message_of<ConfigurationError>([&] {
    const Job job(kOpenNet, "reference",
                  {kPath, {"model.layers", "[{ type = \"extra.gated_linear\", features = -3 }]"}});
  });
  EXPECT_THAT(message, HasSubstr("parameter 'value' would be [-3, 6]"));
}

}  // namespace
}  // namespace runtime::train
