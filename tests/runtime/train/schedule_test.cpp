// Compares learning rates with the closed forms of PyTorch's schedulers.
#include "runtime/train/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/error.h"
#include "tests/runtime/support/devices.h"

namespace runtime::train {
namespace {

using testing::HasSubstr;

constexpr int64_t kEpoch = 10;  // steps

config::Config with(const std::string& name, double lr = 1) {
  config::Config c;
  c.optimizer.lr = lr;
  c.lr_scheduler.name = name;
  c.training.steps = 100;
  return c;
}

TEST(Schedule, Constant) {
  const config::Config c = with("constant", 0.5);
  for (int64_t step : {0, 7, 1000}) EXPECT_EQ(learning_rate(c, step, kEpoch), 0.5);
}

TEST(Schedule, StepDecays) {
  config::Config c = with("step");
  c.lr_scheduler.step_size = 3;
  EXPECT_EQ(learning_rate(c, 29, kEpoch), 1);
  EXPECT_DOUBLE_EQ(learning_rate(c, 30, kEpoch), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(c, 89, kEpoch), 0.01);
  c.lr_scheduler.min_lr = 0.05;
  EXPECT_EQ(learning_rate(c, 89, kEpoch), 0.05);
}

// MultiStepLR
TEST(Schedule, MultiStepDecaysAtMilestones) {
  config::Config c = with("multi_step", 0.2);
  c.lr_scheduler.milestones = {2, 5};
  c.lr_scheduler.gamma = 0.5;
  const std::vector<std::pair<int64_t, double>> expected = {{0, 0.2},  {19, 0.2},  {20, 0.1},
                                                            {49, 0.1}, {50, 0.05}, {1000, 0.05}};
  for (const auto& [step, rate] : expected)
    EXPECT_DOUBLE_EQ(learning_rate(c, step, kEpoch), rate) << step;
}

// CosineAnnealingLR(T_max = 100, eta_min), constant after its end.
TEST(Schedule, Cosine) {
  config::Config c = with("cosine", 0.3);
  c.lr_scheduler.min_lr = 0.02;
  for (int64_t step = 0; step <= 100; ++step) {
    const double expected =
        0.02 +
        (0.3 - 0.02) * (1 + std::cos(std::numbers::pi * static_cast<double>(step) / 100)) / 2;
    EXPECT_NEAR(learning_rate(c, step, kEpoch), expected, 1e-15) << step;
  }
  EXPECT_EQ(learning_rate(c, 100, kEpoch), 0.02);
  EXPECT_EQ(learning_rate(c, 150, kEpoch), 0.02);
}

// LinearLR(start_factor = 1, end_factor = 0.25, total_iters = 50)
TEST(Schedule, LinearEndsAtDecaySteps) {
  config::Config c = with("linear", 0.4);
  c.lr_scheduler.min_lr = 0.1;
  c.lr_scheduler.decay_steps = 50;
  for (int64_t step = 0; step <= 60; ++step) {
    const double factor = 1 + (0.25 - 1) * static_cast<double>(std::min<int64_t>(50, step)) / 50;
    EXPECT_NEAR(learning_rate(c, step, kEpoch), 0.4 * factor, 1e-15) << step;
  }
}

TEST(Schedule, DecaysOverTheEpochsOfTheTraining) {
  config::Config c = with("linear");
  c.training.steps = 0;
  c.training.epochs = 8;
  EXPECT_DOUBLE_EQ(learning_rate(c, 40, kEpoch), 0.5);
  EXPECT_EQ(learning_rate(c, 80, kEpoch), 0);
}

TEST(Schedule, WarmUpIsLinear) {
  config::Config c = with("constant", 0.8);
  c.lr_scheduler.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(learning_rate(c, 0, kEpoch), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(c, 3, kEpoch), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(c, 4, kEpoch), 0.8);
}

// SequentialLR of LinearLR and CosineAnnealingLR(T_max = 100 - 20)
TEST(Schedule, TheDecayBeginsAfterTheWarmUp) {
  config::Config c = with("cosine");
  c.lr_scheduler.warmup_steps = 20;
  EXPECT_DOUBLE_EQ(learning_rate(c, 9, kEpoch), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(c, 19, kEpoch), 1);
  EXPECT_DOUBLE_EQ(learning_rate(c, 20, kEpoch), 1);
  EXPECT_NEAR(learning_rate(c, 60, kEpoch), 0.5, 1e-15);
  EXPECT_NEAR(learning_rate(c, 40, kEpoch), (1 + std::cos(std::numbers::pi / 4)) / 2, 1e-15);
}

TEST(Schedule, ScalesWithTheGlobalBatch) {
  config::Config c = with("constant", 0.1);
  c.training.global_batch_size = 400;
  c.lr_scheduler.reference_batch_size = 100;
  EXPECT_DOUBLE_EQ(learning_rate(c, 0, kEpoch), 0.1);
  c.lr_scheduler.scale_with_batch = "linear";
  EXPECT_DOUBLE_EQ(learning_rate(c, 0, kEpoch), 0.4);
  c.lr_scheduler.scale_with_batch = "sqrt";
  EXPECT_DOUBLE_EQ(learning_rate(c, 0, kEpoch), 0.2);
}

TEST(Schedule, KeysThatDoNotFitAreRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"milestones = [3]", "lr_scheduler.milestones: is not used by name = \"constant\""},
      {"name = \"multi_step\"", "needs the epochs"},
      {"name = \"multi_step\"\nmilestones = [5, 3]", "rising"},
      {"name = \"step\"\ndecay_steps = 7", "lr_scheduler.decay_steps: is not used"},
      {"name = \"cosine\"\ndecay_steps = 7\nwarmup_steps = 7", "more than warmup_steps, 7"},
      {"name = \"linear\"\nmin_lr = 0.5", "at most optimizer.lr, 0.01"}};
  for (const auto& [lines, message] : cases) {
    const std::string toml =
        "model.preset = \"lenet\"\ndataset.name = \"synthetic\"\ndataset.samples = 8\n"
        "dataset.classes = 10\ntraining.global_batch_size = 4\n[lr_scheduler]\n" +
        lines + "\n";
    EXPECT_THAT(test::message_of<ConfigurationError>([&] { test::parse(toml); }),
                HasSubstr(message));
  }
}

}  // namespace
}  // namespace runtime::train
