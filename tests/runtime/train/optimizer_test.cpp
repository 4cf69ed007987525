// Compares optimizers, clipping, l2 and frozen parameters with loops written by hand, in float64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/error.h"
#include "tests/runtime/train/job.h"
#include "tests/runtime/train/settings.h"

namespace runtime::train {
namespace {

constexpr double kTolerance = 1e-12;
constexpr int kSteps = 6;

using Tensors = std::map<std::string, Numbers>;

Tensors all_numbers(const data::TensorFile& file) {
  Tensors tensors;
  for (const auto& [name, t] : file.tensors) tensors[name] = numbers(t);
  return tensors;
}

void expect_near(const Tensors& actual, const Tensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, values] : expected)
    EXPECT_LT(test::relative_error(actual.at(name), values), kTolerance) << name;
}

// Trains kTiny with these settings, and calls update(step from 1, weight, gradient, state) for each
// element in a loop; the weights must agree.
struct NumberState {
  double a = 0, b = 0;
  bool matrix = false;  // whether the element belongs to a matrix; otherwise to a bias
  std::string name;     // of the parameter
  double c = 0;
};
template <typename Update>
void compare(const Settings& overrides, Update update, double max_norm = 0) {
  Job job(kTiny, "reference", overrides);
  Tensors weights = all_numbers(job.trainer->weights());
  std::map<std::string, std::vector<NumberState>> states;
  for (const auto& [name, w] : weights)
    states[name].resize(w.size(), {0, 0, name.ends_with(".weight"), name});
  for (int step = 1; step <= kSteps; ++step) {
    const data::Batch& batch = job.loader->next();
    const Tensors gradients = all_numbers(job.trainer->gradients(batch));
    double squares = 0;
    for (const auto& [name, w] : weights) {
      for (double g : gradients.at(name)) squares += g * g;
    }
    const double scale = max_norm > 0 ? std::min(1.0, max_norm / (std::sqrt(squares) + 1e-6)) : 1;
    EXPECT_TRUE(max_norm == 0 || scale < 1) << "nothing is clipped";
    for (auto& [name, w] : weights) {
      for (size_t i = 0; i < w.size(); ++i)
        update(step, w[i], scale * gradients.at(name)[i], states[name][i]);
    }
    job.trainer->step(batch, job.config.optimizer.lr);
    expect_near(all_numbers(job.trainer->weights()), weights);
  }
}

TEST(Optimizer, SgdWithWeightDecay) {
  compare({{"optimizer.weight_decay", "0.1"}},
          [](int, double& w, double g, NumberState&) { w -= 0.1 * (g + 0.1 * w); });
}

TEST(Optimizer, Momentum) {
  compare({{"optimizer.momentum", "0.9"}, {"optimizer.weight_decay", "0.01"}},
          [](int, double& w, double g, NumberState& s) {
            s.a = 0.9 * s.a + g + 0.01 * w;
            w -= 0.1 * s.a;
          });
}

TEST(Optimizer, Nesterov) {
  compare({{"optimizer.momentum", "0.8"}, {"optimizer.nesterov", "true"}},
          [](int, double& w, double g, NumberState& s) {
            s.a = 0.8 * s.a + g;
            w -= 0.1 * (g + 0.8 * s.a);
          });
}

TEST(Optimizer, AdamW) {
  compare({{"optimizer.name", "adamw"},
           {"optimizer.betas", "[0.8, 0.95]"},
           {"optimizer.eps", "1e-4"},
           {"optimizer.weight_decay", "0.2"}},
          [](int step, double& w, double g, NumberState& s) {
            w -= 0.1 * 0.2 * w;
            s.a = 0.8 * s.a + 0.2 * g;
            s.b = 0.95 * s.b + 0.05 * g * g;
            w -= 0.1 * (s.a / (1 - std::pow(0.8, step))) /
                 (std::sqrt(s.b / (1 - std::pow(0.95, step))) + 1e-4);
          });
}

// Equivalent to two parameter groups in PyTorch, one of them with weight_decay = 0.
TEST(Optimizer, WeightDecayOnMatricesOnly) {
  const config::Override matrices = {"optimizer.weight_decay_on", "matrices"};
  const auto momentum = [](int, double& w, double g, NumberState& s) {
    s.a = 0.9 * s.a + g + (s.matrix ? 0.1 * w : 0);
    w -= 0.1 * s.a;
  };
  compare({{"optimizer.momentum", "0.9"}, {"optimizer.weight_decay", "0.1"}, matrices}, momentum);
  compare({{"optimizer.momentum", "0.9"},
           {"optimizer.weight_decay", "0.1"},
           {"training.max_norm", "0.05"},
           matrices},
          momentum, 0.05);
  compare({{"optimizer.name", "adamw"}, {"optimizer.weight_decay", "0.2"}, matrices},
          [](int step, double& w, double g, NumberState& s) {
            if (s.matrix) w -= 0.1 * 0.2 * w;
            s.a = 0.9 * s.a + 0.1 * g;
            s.b = 0.999 * s.b + 0.001 * g * g;
            w -= 0.1 * (s.a / (1 - std::pow(0.9, step))) /
                 (std::sqrt(s.b / (1 - std::pow(0.999, step))) + 1e-8);
          });
}

TEST(Optimizer, WeightDecayInTheGradientOfMatricesOnly) {
  compare({{"optimizer.name", "adagrad"},
           {"optimizer.weight_decay", "0.2"},
           {"optimizer.weight_decay_on", "matrices"}},
          [](int, double& w, double g, NumberState& s) {
            if (s.matrix) g += 0.2 * w;
            s.a += g * g;
            w -= 0.1 * g / (std::sqrt(s.a) + 1e-10);
          });
}

// The first gradient enters the momentum whole, as in PyTorch.
TEST(Optimizer, Dampening) {
  const auto update = [](int step, double& w, double g, NumberState& s) {
    g += 0.05 * w;
    s.a = step == 1 ? g : 0.9 * s.a + (1 - 0.3) * g;
    w -= 0.1 * s.a;
  };
  const Settings settings = {{"optimizer.momentum", "0.9"},
                             {"optimizer.dampening", "0.3"},
                             {"optimizer.weight_decay", "0.05"}};
  compare(settings, update);
  compare(settings + Settings{{"training.max_norm", "0.05"}}, update, 0.05);
}

// Weight decay is part of the gradient.
TEST(Optimizer, Adam) {
  const auto update = [](int step, double& w, double g, NumberState& s) {
    g += 0.2 * w;
    s.a = 0.8 * s.a + 0.2 * g;
    s.b = 0.95 * s.b + 0.05 * g * g;
    w -= 0.1 * (s.a / (1 - std::pow(0.8, step))) /
         (std::sqrt(s.b / (1 - std::pow(0.95, step))) + 1e-8);
  };
  const Settings settings = {{"optimizer.name", "adam"},
                             {"optimizer.betas", "[0.8, 0.95]"},
                             {"optimizer.weight_decay", "0.2"}};
  compare(settings, update);
  compare(settings + Settings{{"training.max_norm", "0.05"}}, update, 0.05);
}

TEST(Optimizer, RmsProp) {
  for (const bool centered : {false, true}) {
    for (const double momentum : {0.0, 0.7}) {
      const auto update = [&](int, double& w, double g, NumberState& s) {
        g += 0.01 * w;
        s.a = 0.9 * s.a + 0.1 * g * g;
        s.b = 0.9 * s.b + 0.1 * g;
        const double step = g / (std::sqrt(centered ? s.a - s.b * s.b : s.a) + 1e-3);
        s.c = momentum * s.c + step;
        w -= 0.1 * s.c;
      };
      const Settings settings = {{"optimizer.name", "rmsprop"},
                                 {"optimizer.alpha", "0.9"},
                                 {"optimizer.eps", "1e-3"},
                                 {"optimizer.centered", centered ? "true" : "false"},
                                 {"optimizer.momentum", std::to_string(momentum)},
                                 {"optimizer.weight_decay", "0.01"}};
      compare(settings, update);
      compare(settings + Settings{{"training.max_norm", "0.05"}}, update, 0.05);
    }
  }
}

TEST(Optimizer, Adagrad) {
  const auto update = [](int, double& w, double g, NumberState& s) {
    g += 0.01 * w;
    s.a += g * g;
    w -= 0.1 * g / (std::sqrt(s.a + 0.25) + 1e-10);
  };
  const Settings settings = {{"optimizer.name", "adagrad"},
                             {"optimizer.initial_accumulator", "0.25"},
                             {"optimizer.weight_decay", "0.01"}};
  compare(settings, update);
  compare(settings + Settings{{"training.max_norm", "0.05"}}, update, 0.05);
}

// Algorithm 2 of Chen and others, "Symbolic Discovery of Optimization Algorithms".
TEST(Optimizer, Lion) {
  const auto update = [](int, double& w, double g, NumberState& s) {
    const double u = 0.9 * s.a + 0.1 * g;
    w -= 0.01 * ((u > 0) - (u < 0) + 0.1 * w);
    s.a = 0.99 * s.a + 0.01 * g;
  };
  const Settings settings = {
      {"optimizer.name", "lion"}, {"optimizer.lr", "0.01"}, {"optimizer.weight_decay", "0.1"}};
  compare(settings, update);
  compare(settings + Settings{{"training.max_norm", "0.05"}}, update, 0.05);
}

// A number that is not one stays visible, though its sign is not.
TEST(Optimizer, LionShowsThatAGradientIsNotANumber) {
  Job job(kTiny, "reference", {{"optimizer.name", "lion"}});
  data::Batch batch = job.loader->next();
  batch.features[0] = std::nanf("");
  job.trainer->step(batch, 0.01);
  const Tensors weights = all_numbers(job.trainer->weights());
  EXPECT_TRUE(std::any_of(weights.at("fc1.weight").begin(), weights.at("fc1.weight").end(),
                          [](double w) { return std::isnan(w); }));
}

TEST(Optimizer, EachNumberOfTheGradientIsClipped) {
  constexpr double kMost = 0.02;
  int clipped = 0, whole = 0;
  for (const char* name : {"sgd", "lion"}) {
    compare({{"optimizer.name", name}, {"training.max_value", "0.02"}},
            [&](int, double& w, double g, NumberState& s) {
              std::abs(g) > kMost ? ++clipped : ++whole;
              g = std::clamp(g, -kMost, kMost);
              const double u = 0.9 * s.a + 0.1 * g;
              s.a = 0.99 * s.a + 0.01 * g;
              w -= 0.1 * (std::string(name) == "sgd" ? g : (u > 0) - (u < 0));
            });
  }
  EXPECT_GT(clipped, 10);
  EXPECT_GT(whole, 10);
}

// Equivalent to parameter groups of PyTorch, with an optimizer for each rule. The first group that
// matches counts; what a group leaves out is as in [optimizer].
TEST(Optimizer, GroupsHaveTheirOwnRules) {
  const std::string groups =
      "[{ parameters = [\"*2.bias\"], lr = 0.4 },"
      " { parameters = [\"fc1.*\"], name = \"adamw\", lr = 0.02, weight_decay_on = \"all\" },"
      " { parameters = [\"*.bias\"], weight_decay = 0.7 }]";
  const Settings settings = {{"optimizer.momentum", "0.9"},
                             {"optimizer.weight_decay", "0.1"},
                             {"optimizer.weight_decay_on", "matrices"},
                             {"optimizer.group", groups}};
  const auto update = [](int step, double& w, double g, NumberState& s) {
    if (s.name.starts_with("fc1.")) {
      w -= 0.02 * 0.1 * w;
      s.a = 0.9 * s.a + 0.1 * g;
      s.b = 0.999 * s.b + 0.001 * g * g;
      w -= 0.02 * (s.a / (1 - std::pow(0.9, step))) /
           (std::sqrt(s.b / (1 - std::pow(0.999, step))) + 1e-8);
      return;
    }
    s.a = 0.9 * s.a + g + (s.matrix ? 0.1 * w : 0);
    w -= (s.matrix ? 0.1 : 0.4) * s.a;
  };
  compare(settings, update);
  compare(settings + Settings{{"training.max_norm", "0.05"}}, update, 0.05);
}

// Validations have the average; training goes on with the weights.
TEST(Optimizer, TheMovingAverageOfTheWeights) {
  Job plain(kTiny, "reference"), job(kTiny, "reference", {{"optimizer.average_decay", "0.8"}});
  Tensors average = all_numbers(job.trainer->weights());
  data::Loader validation(job.data.train, validation_loader_options(job.config));
  for (int step = 0; step < kSteps; ++step) {
    plain.step();
    job.step();
    const Tensors weights = all_numbers(job.trainer->weights());
    EXPECT_EQ(weights, all_numbers(plain.trainer->weights()));
    for (auto& [name, a] : average) {
      for (size_t i = 0; i < a.size(); ++i) a[i] = 0.8 * a[i] + 0.2 * weights.at(name)[i];
    }
    expect_near(all_numbers(job.trainer->average()), average);
    const double loss = job.trainer->evaluate(validation).loss;
    plain.trainer->set_weights(job.trainer->average(), "the average");
    EXPECT_NEAR(loss, plain.trainer->evaluate(validation).loss, kTolerance);
    plain.trainer->set_weights(job.trainer->weights(), "the weights");
  }
  EXPECT_FALSE(plain.trainer->has_average());
}

TEST(Optimizer, PatternsOfGroupsMustMatch) {
  EXPECT_THAT(test::message_of<ConfigurationError>([] {
                Job job(kTiny, "reference",
                        {{"optimizer.group", "[{ parameters = [\"conv*\"], lr = 1 }]"}});
              }),
              testing::AllOf(testing::HasSubstr("optimizer.group[0].parameters"),
                             testing::HasSubstr("\"conv*\"")));
}

TEST(Optimizer, WeightDecayOnMatricesIsTheSameOnTheCpu) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the cpu backend was not built";
  for (const char* name : {"sgd", "adamw"}) {
    const Settings settings = {{"training.dtype", "float32"},
                               {"optimizer.name", name},
                               {"optimizer.weight_decay", "0.2"},
                               {"optimizer.weight_decay_on", "matrices"},
                               {"model.freeze", "[\"fc2.bias\"]"}};
    Job reference(kTiny, "reference", settings), cpu(kTiny, "cpu", settings);
    reference.step(kSteps);
    cpu.step(kSteps);
    const Tensors expected = all_numbers(reference.trainer->weights());
    for (const auto& [tensor, values] : all_numbers(cpu.trainer->weights()))
      EXPECT_LT(test::relative_error(values, expected.at(tensor)), 1e-5) << name << " " << tensor;
  }
}

TEST(Optimizer, ClippingScalesAllGradientsByOneFactor) {
  compare(
      {{"training.max_norm", "0.05"}}, [](int, double& w, double g, NumberState&) { w -= 0.1 * g; },
      0.05);
}

TEST(Optimizer, L2AddsItsFormula) {
  const std::string layers =
      "[ { type = \"linear\", features = 5, l2 = 0.03 }, { type = \"linear\", features = 3 } ]";
  std::string plain = layers;
  plain.erase(plain.find(", l2 = 0.03"), 11);
  Job with(kTiny, "reference", {{"model.layers", layers}});
  Job without(kTiny, "reference", {{"model.layers", plain}});
  const data::Batch& batch = with.loader->next();
  Tensors a = all_numbers(with.trainer->gradients(batch));
  const Tensors b = all_numbers(without.trainer->gradients(batch));
  const Numbers w = numbers(with.trainer->weights().tensors.at("fc1.weight"));
  double sum = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    sum += w[i] * w[i];
    EXPECT_NEAR(a["fc1.weight"][i] - b.at("fc1.weight")[i], 2 * 0.03 * w[i], kTolerance);
  }
  EXPECT_NEAR(a["loss"][0] - b.at("loss")[0], 0.03 * sum, kTolerance);
  for (const char* name : {"fc1.bias", "fc2.weight", "fc2.bias", "logits"})
    EXPECT_EQ(a[name], b.at(name)) << name;
}

TEST(Optimizer, FrozenParametersDoNotChange) {
  Job job(kTiny, "reference", {{"model.freeze", "[\"fc1.*\"]"}, {"optimizer.weight_decay", "0.1"}});
  const Tensors before = all_numbers(job.trainer->weights());
  EXPECT_FALSE(job.trainer->gradients(job.loader->next()).tensors.contains("fc1.weight"));
  job.step(3);
  const Tensors after = all_numbers(job.trainer->weights());
  for (const char* name : {"fc1.weight", "fc1.bias"}) EXPECT_EQ(after.at(name), before.at(name));
  for (const char* name : {"fc2.weight", "fc2.bias"}) EXPECT_NE(after.at(name), before.at(name));
}

TEST(Optimizer, ThePartThatIsNotFrozenLearnsAsIfAlone) {
  Job whole(kTiny, "reference"), part(kTiny, "reference", {{"model.freeze", "[\"fc1.weight\"]"}});
  const data::Batch& batch = whole.loader->next();
  const Tensors a = all_numbers(whole.trainer->gradients(batch));
  Tensors b = all_numbers(part.trainer->gradients(batch));
  for (const auto& [name, gradient] : b) EXPECT_EQ(a.at(name), gradient) << name;
}

TEST(Optimizer, PatternsOfFreezeMustMatch) {
  EXPECT_THAT(test::message_of<ConfigurationError>([] {
                Job job(kTiny, "reference", {{"model.freeze", "[\"conv*\"]"}});
              }),
              testing::AllOf(testing::HasSubstr("\"conv*\""), testing::HasSubstr("fc1.weight")));
  EXPECT_THAT(test::message_of<ConfigurationError>([] {
                Job job(kTiny, "reference", {{"model.freeze", "[\"*\"]"}});
              }),
              testing::HasSubstr("no parameter to train"));
}

// The mean loss with weights of classes is divided by the weights of the labels.
TEST(Optimizer, ClassWeights) {
  const std::string weights = "[0.5, 2, 1]";
  Job plain(kTiny, "reference"),
      weighted(kTiny, "reference", {{"training.class_weights", weights}});
  const data::Batch& batch = weighted.loader->next();
  const Tensors a = all_numbers(plain.trainer->gradients(batch));
  const Numbers& logits = a.at("logits");
  const std::vector<double> of = {0.5, 2, 1};
  double sum = 0, weight = 0;
  for (int64_t i = 0; i < batch.rows; ++i) {
    double all = 0;
    for (int k = 0; k < 3; ++k) all += std::exp(logits[i * 3 + k]);
    sum += of[batch.labels[i]] * (std::log(all) - logits[i * 3 + batch.labels[i]]);
    weight += of[batch.labels[i]];
  }
  EXPECT_NEAR(all_numbers(weighted.trainer->gradients(batch)).at("loss")[0], sum / weight, 1e-12);
  EXPECT_THAT(test::message_of<ConfigurationError>([] {
                Job job(kTiny, "reference", {{"training.class_weights", "[1, 2]"}});
              }),
              testing::HasSubstr("training.class_weights has 2 numbers"));
}

// A padded batch and its real samples alone give the same gradients and the same step.
class LastBatchTest : public testing::Test {
 protected:
  static Settings with(const std::string& mode) {
    return {{"dataset.last_batch", mode}, {"dataset.shuffle", "false"}};
  }
  // The third batch: 20 samples in batches of 8 leave 4 for it.
  static const data::Batch& third(Job& job) {
    job.loader->next();
    job.loader->next();
    return job.loader->next();
  }
};

TEST_F(LastBatchTest, PaddingCountsNothing) {
  Job keep(kTiny, "reference", with("keep")), pad(kTiny, "reference", with("pad"));
  const data::Batch& small = third(keep);
  const data::Batch& padded = third(pad);
  ASSERT_EQ(small.rows, 4);
  ASSERT_EQ(padded.rows, 8);
  const Tensors a = all_numbers(keep.trainer->gradients(small));
  Tensors b = all_numbers(pad.trainer->gradients(padded));
  b["logits"].resize(a.at("logits").size());
  expect_near(b, a);
  keep.trainer->step(small, 0.1);
  pad.trainer->step(padded, 0.1);
  EXPECT_NEAR(keep.losses()[0], pad.losses()[0], kTolerance);
  expect_near(all_numbers(pad.trainer->weights()), all_numbers(keep.trainer->weights()));
}

TEST_F(LastBatchTest, DropHasTwoBatches) {
  Job drop(kTiny, "reference", with("drop"));
  EXPECT_EQ(drop.loader->batches_per_epoch(), 2);
  EXPECT_EQ(third(drop).epoch, 1);
}

// Every sample counts once, whatever the batch size.
TEST_F(LastBatchTest, EvaluationDoesNotDependOnTheBatchSize) {
  Job job(kTiny, "reference");
  Evaluation whole;
  for (int64_t rows : {20, 8, 7, 1}) {
    data::LoaderOptions options = validation_loader_options(job.config);
    options.batch_size = rows;
    data::Loader loader(job.data.train, options);
    const Evaluation e = job.trainer->evaluate(loader);
    if (rows == 20) whole = e;
    EXPECT_EQ(e.samples, 20);
    EXPECT_NEAR(e.loss, whole.loss, kTolerance);
    EXPECT_NEAR(e.accuracy, whole.accuracy, kTolerance);
  }
}

}  // namespace
}  // namespace runtime::train
