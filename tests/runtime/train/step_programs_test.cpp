// Checks that loss, inputs and classes fit the data, and tied weights.
#include "runtime/train/rank/step_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/config/choices.h"
#include "runtime/error.h"
#include "runtime/train/open.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

using testing::HasSubstr;

TEST(StepPrograms, TheLossMustFitTheData) {
  data::SampleSpec classes{{6}, 3, 0}, targets{{6}, 0, 2};
  config::Training training;
  EXPECT_EQ(resolve_loss(training, classes).name, "cross_entropy");
  EXPECT_EQ(resolve_loss(training, targets).name, "mean_squared_error");
  training.loss = "mean_squared_error";
  EXPECT_THAT(test::message_of<ConfigurationError>([&] { resolve_loss(training, classes); }),
              HasSubstr("does not fit"));
}

TEST(StepPrograms, InputsAndClassesMustFitTheData) {
  EXPECT_THAT(test::message_of<ConfigurationError>([] {
                Job job(kTiny, "reference", {{"dataset.classes", "4"}});
              }),
              testing::AllOf(HasSubstr("3 outputs"), HasSubstr("4 classes")));
  const config::Config c = test::parse(kTiny);
  EXPECT_THAT(test::message_of<ConfigurationError>([&] {
                StepPrograms(RankSetup(c, {{7}, 3, 0}, test::open_device("reference"), {}));
              }),
              testing::AllOf(HasSubstr("[6]"), HasSubstr("[7]")));
}

TEST(StepPrograms, RegressionLearns) {
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
TEST(StepPrograms, ATiedWeightIsOneParameterWithBothGradients) {
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
