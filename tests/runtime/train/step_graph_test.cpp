#include "runtime/train/step_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/error.h"
#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

using graph::kNone;
using graph::ValueKind;
using testing::HasSubstr;

model::Model two_layers() {
  model::Layer first, second;
  first.kind = model::Linear{5, true};
  first.name = "a";
  second.kind = model::Linear{3, true};
  second.name = "b";
  return {{6}, {first, second}, {}};
}

StepGraph build(Purpose purpose, StepOptions options = {}) {
  options.purpose = purpose;
  options.batch = 4;
  return build_step(two_layers(), options);
}

TEST(StepGraph, ParametersAndGradientsLieInTheSamePlaces) {
  const StepGraph s = build(Purpose::kTraining);
  ASSERT_EQ(s.parameters.size(), 4u);
  for (size_t i = 0; i < s.parameters.size(); ++i) {
    const graph::Value& p = s.graph.value(s.parameters[i].value);
    const graph::Value& g = s.graph.value(s.gradients[i]);
    EXPECT_EQ(s.graph.value(p.base).name, "parameters");
    EXPECT_EQ(s.graph.value(g.base).name, "gradients");
    EXPECT_EQ(p.offset, g.offset);
    EXPECT_EQ(p.offset % 64, 0u);
    EXPECT_EQ(p.dims, g.dims);
    const uint64_t size = s.graph.value(p.base).bytes;
    EXPECT_LE(p.offset + graph::canonical_bytes(p), size);
  }
  EXPECT_EQ(s.graph.nodes.back().op, RT_OP_SGD);
  EXPECT_EQ(std::count_if(s.graph.nodes.begin(), s.graph.nodes.end(),
                          [](const graph::Node& n) { return n.phase == graph::Phase::kUpdate; }),
            1);
}

TEST(StepGraph, EvaluationHasNeitherGradientsNorUpdate) {
  const StepGraph s = build(Purpose::kEvaluation);
  for (const graph::Node& n : s.graph.nodes) EXPECT_EQ(n.phase, graph::Phase::kForward) << n.op;
  EXPECT_TRUE(s.gradients.empty());
  EXPECT_NE(s.correct, kNone);
  EXPECT_EQ(s.learning_rate, kNone);
}

TEST(StepGraph, GradientsKeepTheOutputAndUpdateNothing) {
  const StepGraph s = build(Purpose::kGradients);
  for (const graph::Node& n : s.graph.nodes) EXPECT_NE(n.phase, graph::Phase::kUpdate) << n.op;
  EXPECT_EQ(s.graph.value(s.output).kind, ValueKind::kOutput);
}

// Without the copy, the memory of the view's base would be reused after the loss.
TEST(StepGraph, AnOutputThatIsAViewIsCopied) {
  model::Layer convolution, flatten;
  convolution.kind = model::Conv2d{.channels = 4, .kernel_h = 3, .kernel_w = 3, .convolution = {}};
  flatten.kind = model::Flatten{};
  StepOptions options;
  options.batch = 4;
  for (const Purpose purpose : {Purpose::kGradients, Purpose::kEvaluation}) {
    options.purpose = purpose;
    const StepGraph s = build_step({{2, 3, 3}, {convolution, flatten}, {}}, options);
    EXPECT_EQ(s.graph.value(s.output).kind, ValueKind::kOutput);
    EXPECT_EQ(s.graph.storage(s.output), s.output);
  }
}

TEST(StepGraph, FrozenParametersHaveABufferOfTheirOwn) {
  StepOptions options;
  options.freeze = {"a.*"};
  const StepGraph s = build(Purpose::kTraining, options);
  EXPECT_EQ(s.graph.value(s.graph.storage(s.parameters[0].value)).name, "frozen");
  EXPECT_EQ(s.gradients[0], kNone);
  EXPECT_EQ(s.graph.value(s.graph.storage(s.parameters[2].value)).name, "parameters");
  for (const graph::Node& n : s.graph.nodes) {
    EXPECT_TRUE(n.op != RT_OP_SGD || s.graph.value(n.outputs[0]).dims == graph::Dims{16 + 16});
  }
}

TEST(StepGraph, AModelWithoutParametersIsToldApartFromAFrozenOne) {
  model::Layer flatten;
  flatten.kind = model::Flatten{};
  StepOptions options;
  options.purpose = Purpose::kGradients;
  EXPECT_THAT(
      test::message_of<ConfigurationError>([&] {
        build_step({{2, 3, 3}, {flatten}, {}}, options);
      }),
      testing::AllOf(HasSubstr("no parameter to train"), testing::Not(HasSubstr("freeze"))));
  options.freeze = {"*"};
  EXPECT_THAT(test::message_of<ConfigurationError>([&] { build(Purpose::kGradients, options); }),
              HasSubstr("model.freeze leaves no parameter to train"));
}

TEST(StepGraph, TheLossMustFitTheData) {
  data::SampleSpec classes{{6}, 3, 0}, targets{{6}, 0, 2};
  config::Training training;
  EXPECT_EQ(resolve_loss(training, classes), "cross_entropy");
  EXPECT_EQ(resolve_loss(training, targets), "mean_squared_error");
  training.loss = "mean_squared_error";
  EXPECT_THAT(test::message_of<ConfigurationError>([&] { resolve_loss(training, classes); }),
              HasSubstr("does not fit"));
}

TEST(StepGraph, InputsAndClassesMustFitTheData) {
  EXPECT_THAT(test::message_of<ConfigurationError>([] {
                Job job(kTiny, "reference", {{"dataset.classes", "4"}});
              }),
              testing::AllOf(HasSubstr("3 outputs"), HasSubstr("4 classes")));
  const config::Config c = test::parse(kTiny);
  EXPECT_THAT(test::message_of<ConfigurationError>([&] {
                Trainer(c, {{7}, 3, 0}, test::open_device("reference"), {});
              }),
              testing::AllOf(HasSubstr("[6]"), HasSubstr("[7]")));
}

TEST(StepGraph, RegressionLearns) {
  Job job(kTiny, "reference",
          {{"dataset.task", "regression"},
           {"dataset.classes", "0"},
           {"model.layers", "[ { type = \"linear\", features = 1 } ]"},
           {"optimizer.lr", "0.05"}});
  const Numbers losses = job.step(60);
  EXPECT_LT(losses.back(), 0.1 * losses.front());
  data::Loader loader(job.data.train, validation_loader_options(job.config));
  EXPECT_EQ(job.trainer->evaluate(loader).samples, 20);
}

// A language model; `tie` may make its head read the table of the embedding.
std::string language_model(const std::string& tie) {
  return "[model]\ninput = [6]\nlayers = [ { type = \"embedding\", name = \"e\", vocabulary = 7, "
         "features = 4 }, { type = \"linear\", features = 4, activation = \"tanh\" }, { type = "
         "\"linear\", name = \"head\", features = 7, bias = false" +
         tie +
         " } ]\n[dataset]\nname = \"synthetic\"\ntask = \"next_token\"\nsamples = 16\nclasses = 7\n"
         "[training]\nglobal_batch_size = 8\ndtype = \"float64\"\n[optimizer]\nlr = 0.5\n";
}

// The gradients of both uses are added in one buffer, with and without micro-steps.
TEST(StepGraph, ATiedWeightIsOneParameterWithBothGradients) {
  Job own(language_model(""), "reference");
  Job tied(language_model(", tie = \"e\""), "reference");
  data::TensorFile weights = tied.trainer->weights();
  weights.tensors["head.weight"] = weights.tensors.at("e.weight");
  own.trainer->set_weights(weights, "weights");
  const data::TensorFile parts = own.trainer->gradients(own.loader->next());
  Numbers sum = numbers(parts.tensors.at("e.weight"));
  const Numbers head = numbers(parts.tensors.at("head.weight"));
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += head[i];
  Job micro(language_model(", tie = \"e\""), "reference", {{"training.micro_batch_size", "4"}});
  for (Job* job : {&tied, &micro}) {
    const data::TensorFile found = job->trainer->gradients(job->loader->next());
    EXPECT_FALSE(found.tensors.contains("head.weight"));
    EXPECT_LT(test::relative_error(numbers(found.tensors.at("e.weight")), sum), 1e-13);
  }
  const Numbers losses = tied.step(40);
  EXPECT_LT(losses.back(), losses.front());
}

}  // namespace
}  // namespace runtime::train
