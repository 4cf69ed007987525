// The metrics of a validation are those of one rank, on any number of ranks and any mesh.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/train/job.h"
#include "tests/runtime/train/mesh_nets.h"

namespace runtime::train {
namespace {

const Settings kAll = {
    {"validation.metrics",
     "['accuracy', 'top_2', 'precision', 'recall', 'f1', 'f1_micro', 'confusion', 'auroc']"},
    {"dataset.samples", "61"},
    {"dataset.validation_split", "0.5"}};

// Loss, accuracy, samples, then the metrics, of weights that were not trained.
Numbers validation(const std::string& toml, int ranks, const Settings& settings) {
  return numbers(trace(toml, ranks, 0, settings).tensors.at("validation"));
}

void expect_near(const Numbers& actual, const Numbers& expected, const std::string& name) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], 1e-9) << name << ", number " << i;
}

TEST(RanksMetrics, HaveTheBitsOfOneRank) {
  const Numbers one = validation(kSmallLeNet, 1, kAll);
  EXPECT_EQ(one.size(), 3 + 6 + 16u);
  EXPECT_EQ(one[2], 31);
  double samples = 0;
  for (size_t i = 9; i < one.size(); ++i) samples += one[i];
  EXPECT_EQ(samples, 31) << "the confusion matrix has every sample once";
  for (const int ranks : {2, 3, 4}) {
    EXPECT_EQ(validation(kSmallLeNet, ranks, kAll), one) << ranks;
    EXPECT_EQ(validation(kSmallLeNet, ranks, kAll + Settings{{"dataset.last_batch", "pad"}}), one)
        << ranks;
  }
}

TEST(RanksMetrics, OfARegression) {
  const std::string toml =
      "[model]\ninput = [6]\nlayers = [ { type = \"linear\", features = 8, activation = \"tanh\" "
      "}, "
      "{ type = \"linear\", features = 5 }, { type = \"linear\", features = 1 } ]\n" +
      kData;
  const Settings settings = {{"dataset.task", "regression"},
                             {"dataset.classes", "0"},
                             {"validation.metrics", "['mse', 'mae', 'r2']"},
                             {"dataset.samples", "61"},
                             {"dataset.validation_split", "0.5"}};
  const Numbers one = validation(toml, 1, settings);
  EXPECT_EQ(one.size(), 6u);
  EXPECT_NEAR(one[3], one[0], 1e-12) << "the loss is the mean squared error";
  for (const int ranks : {2, 3, 4}) EXPECT_EQ(validation(toml, ranks, settings), one) << ranks;
  expect_near(validation(toml, 2, settings + mesh(1, 2)), one, "pipeline");
}

TEST(RanksMetrics, OfMeshes) {
  const Numbers one = validation(kSmallLeNet, 1, kAll);
  const std::vector<std::pair<int, Settings>> meshes = {
      {2, mesh(2, 1)},
      {2, mesh(1, 2)},
      {2, mesh(1, 2) + kInterleaved},
      {4, mesh(2, 2)},
      {4, mesh(2, 1)},
      {4, mesh(1, 2)},
      {3, {{"parallelism.zero_stage", "3"}}},
      {4, mesh(1, 2) + Settings{{"parallelism.zero_stage", "3"}}},
      {6, mesh(1, 2) + Settings{{"parallelism.zero_stage", "2"}}}};
  for (const auto& [ranks, settings] : meshes)
    expect_near(validation(kSmallLeNet, ranks, kAll + settings), one,
                std::to_string(ranks) + " " + settings[0].key + settings[0].value);
}

TEST(RanksMetrics, OfALanguageModel) {
  const GptFile file;
  const Settings settings = {{"validation.metrics", "['perplexity', 'top_3', 'f1', 'confusion']"},
                             {"dataset.validation_split", "0.5"}};
  const Numbers one = validation(file.toml(), 1, settings);
  EXPECT_NEAR(one[3], std::exp(one[0]), 1e-12);
  for (const int ranks : {2, 3}) EXPECT_EQ(validation(file.toml(), ranks, settings), one) << ranks;
  expect_near(validation(file.toml(), 4, settings + mesh(2, 2)), one, "mesh");
}

TEST(RanksMetrics, OfALanguageModelThatIgnoresAToken) {
  const GptFile file;
  const Settings all = {{"validation.metrics", "['top_3', 'f1', 'confusion']"},
                        {"dataset.validation_split", "0.5"}};
  const Settings settings = all + Settings{{"training.ignore_label", "2"}};
  const Numbers counted = validation(file.toml(), 1, all);
  const Numbers one = validation(file.toml(), 1, settings);
  ASSERT_EQ(one.size(), counted.size());
  const auto classes = static_cast<size_t>(std::lround(std::sqrt(one.size() - 5)));
  ASSERT_EQ(5 + classes * classes, one.size());
  // The weights were not trained, so that the predictions are the same: one row is left out.
  for (size_t i = 0; i < classes * classes; ++i)
    EXPECT_EQ(one[5 + i], i / classes == 2 ? 0 : counted[5 + i]) << i;
  EXPECT_NE(one[4], counted[4]) << "f1";
  for (const int ranks : {2, 3}) EXPECT_EQ(validation(file.toml(), ranks, settings), one) << ranks;
  expect_near(validation(file.toml(), 4, settings + mesh(2, 2)), one, "mesh");
}

}  // namespace
}  // namespace runtime::train
