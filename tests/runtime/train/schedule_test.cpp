// Compares learning rates with the closed forms of PyTorch's schedulers.
#include "runtime/train/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/config/choices.h"
#include "runtime/error.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/names.h"

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
  for (int64_t step : {0, 7, 1000}) EXPECT_EQ(Schedule(c, kEpoch).rate(step), 0.5);
}

// A schedule has two halves: what the configuration knows of it, and what computes its rates.
TEST(Schedule, EachNameOfTheConfigurationIsWritten) {
  test::expect_both_halves(names_of_rows(config::schedules()), "runtime/config/schedules.cpp",
                           written_schedules(), "runtime/train/schedule.cpp");
}

// A name that the configuration accepts and that nothing is written for must not train somehow.
TEST(Schedule, ANameThatNothingIsWrittenForIsAFaultOfTheProgram) {
  config::Config c = with("later");
  EXPECT_THROW(Schedule(c, kEpoch).rate(1), InternalError);
  c = with("warmup_stable_decay");
  c.lr_scheduler.decay = "later";
  EXPECT_THROW(Schedule(c, kEpoch).rate(1), InternalError);
  c = with("constant");
  c.lr_scheduler.scale_with_batch = "later";
  EXPECT_THROW(Schedule(c, kEpoch).rate(1), InternalError);
}

TEST(Schedule, StepDecays) {
  config::Config c = with("step");
  c.lr_scheduler.step_size = 3;
  EXPECT_EQ(Schedule(c, kEpoch).rate(29), 1);
  EXPECT_DOUBLE_EQ(Schedule(c, kEpoch).rate(30), 0.1);
  EXPECT_DOUBLE_EQ(Schedule(c, kEpoch).rate(89), 0.01);
  c.lr_scheduler.min_lr = 0.05;
  EXPECT_EQ(Schedule(c, kEpoch).rate(89), 0.05);
}

// MultiStepLR
TEST(Schedule, MultiStepDecaysAtMilestones) {
  config::Config c = with("multi_step", 0.2);
  c.lr_scheduler.milestones = {2, 5};
  c.lr_scheduler.gamma = 0.5;
  const std::vector<std::pair<int64_t, double>> expected = {{0, 0.2},  {19, 0.2},  {20, 0.1},
                                                            {49, 0.1}, {50, 0.05}, {1000, 0.05}};
  for (const auto& [step, rate] : expected)
    EXPECT_DOUBLE_EQ(Schedule(c, kEpoch).rate(step), rate) << step;
}

// CosineAnnealingLR(T_max = 100, eta_min), constant after its end.
TEST(Schedule, Cosine) {
  config::Config c = with("cosine", 0.3);
  c.lr_scheduler.min_lr = 0.02;
  for (int64_t step = 0; step <= 100; ++step) {
    const double expected =
        0.02 +
        (0.3 - 0.02) * (1 + std::cos(std::numbers::pi * static_cast<double>(step) / 100)) / 2;
    EXPECT_NEAR(Schedule(c, kEpoch).rate(step), expected, 1e-15) << step;
  }
  EXPECT_EQ(Schedule(c, kEpoch).rate(100), 0.02);
  EXPECT_EQ(Schedule(c, kEpoch).rate(150), 0.02);
}

// LinearLR(start_factor = 1, end_factor = 0.25, total_iters = 50)
TEST(Schedule, LinearEndsAtDecaySteps) {
  config::Config c = with("linear", 0.4);
  c.lr_scheduler.min_lr = 0.1;
  c.lr_scheduler.decay_steps = 50;
  for (int64_t step = 0; step <= 60; ++step) {
    const double factor = 1 + (0.25 - 1) * static_cast<double>(std::min<int64_t>(50, step)) / 50;
    EXPECT_NEAR(Schedule(c, kEpoch).rate(step), 0.4 * factor, 1e-15) << step;
  }
}

TEST(Schedule, DecaysOverTheEpochsOfTheTraining) {
  config::Config c = with("linear");
  c.training.steps = 0;
  c.training.epochs = 8;
  EXPECT_DOUBLE_EQ(Schedule(c, kEpoch).rate(40), 0.5);
  EXPECT_EQ(Schedule(c, kEpoch).rate(80), 0);
}

TEST(Schedule, WarmUpIsLinear) {
  config::Config c = with("constant", 0.8);
  c.lr_scheduler.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(Schedule(c, kEpoch).rate(0), 0.2);
  EXPECT_DOUBLE_EQ(Schedule(c, kEpoch).rate(3), 0.8);
  EXPECT_DOUBLE_EQ(Schedule(c, kEpoch).rate(4), 0.8);
}

// SequentialLR of LinearLR and CosineAnnealingLR(T_max = 100 - 20)
TEST(Schedule, TheDecayBeginsAfterTheWarmUp) {
  config::Config c = with("cosine");
  c.lr_scheduler.warmup_steps = 20;
  EXPECT_DOUBLE_EQ(Schedule(c, kEpoch).rate(9), 0.5);
  EXPECT_DOUBLE_EQ(Schedule(c, kEpoch).rate(19), 1);
  EXPECT_DOUBLE_EQ(Schedule(c, kEpoch).rate(20), 1);
  EXPECT_NEAR(Schedule(c, kEpoch).rate(60), 0.5, 1e-15);
  EXPECT_NEAR(Schedule(c, kEpoch).rate(40), (1 + std::cos(std::numbers::pi / 4)) / 2, 1e-15);
}

TEST(Schedule, ScalesWithTheGlobalBatch) {
  config::Config c = with("constant", 0.1);
  c.training.global_batch_size = 400;
  c.lr_scheduler.reference_batch_size = 100;
  EXPECT_DOUBLE_EQ(Schedule(c, kEpoch).rate(0), 0.1);
  c.lr_scheduler.scale_with_batch = "linear";
  EXPECT_DOUBLE_EQ(Schedule(c, kEpoch).rate(0), 0.4);
  c.lr_scheduler.scale_with_batch = "sqrt";
  EXPECT_DOUBLE_EQ(Schedule(c, kEpoch).rate(0), 0.2);
}

TEST(Schedule, KeysThatDoNotFitAreRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"milestones = [3]", "lr_scheduler.milestones: is not used by constant"},
      {"name = \"multi_step\"", "needs the epochs"},
      {"name = \"multi_step\"\nmilestones = [5, 3]", "rising"},
      {"name = \"step\"\ndecay_steps = 7", "lr_scheduler.decay_steps: is not used"},
      {"name = \"cosine\"\ndecay_steps = 7\nwarmup_steps = 7", "more than warmup_steps, 7"},
      {"name = \"step\"\ngamma = 1.5", "lr_scheduler.gamma: got 1.5, expected above 0, at most 1"},
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

// The rates of the first steps.
std::vector<double> rates(const config::Config& c, size_t count, int64_t epoch = kEpoch) {
  std::vector<double> list;
  for (size_t step = 0; step < count; ++step)
    list.push_back(Schedule(c, epoch).rate(static_cast<int64_t>(step)));
  return list;
}
void expect_rates(const config::Config& c, const std::vector<double>& expected,
                  int64_t epoch = kEpoch) {
  EXPECT_THAT(rates(c, expected.size(), epoch),
              testing::Pointwise(testing::DoubleNear(1e-12), expected));
}

// The numbers of the following five tests were printed by PyTorch 2.15.

TEST(Schedule, ExponentialLR) {
  config::Config c = with("exponential", 0.4);
  c.lr_scheduler.gamma = 0.9;
  expect_rates(c, {0.4, 0.36, 0.324, 0.2916, 0.26244, 0.236196}, 1);
}

// The rate grows by the same factor each step, as the learning-rate range test needs it.
TEST(Schedule, ExponentialByStepsMayGrow) {
  config::Config c = with("exponential", 1e-3);
  c.lr_scheduler.gamma = 1000;
  c.lr_scheduler.decay_steps = 6;
  expect_rates(
      c, {1e-3, 0.0031622776601683795, 1e-2, 0.031622776601683795, 1e-1, 0.31622776601683794, 1.0});
}

// Its decay_steps are no end, so the warm-up may last as long: LinearLR times ExponentialLR.
TEST(Schedule, ExponentialByStepsMayWarmUpForLonger) {
  const config::Config c = test::parse(
      "model.preset = \"lenet\"\ndataset.name = \"synthetic\"\ndataset.samples = 8\n"
      "dataset.classes = 10\ntraining.global_batch_size = 4\noptimizer.lr = 0.4\n"
      "[lr_scheduler]\nname = \"exponential\"\ngamma = 0.25\ndecay_steps = 2\nwarmup_steps = 4\n");
  expect_rates(c, {0.1, 0.1, 0.075, 0.05, 0.025});
}

TEST(Schedule, PolynomialLR) {
  config::Config c = with("polynomial", 0.4);
  c.lr_scheduler.power = 2;
  c.lr_scheduler.decay_steps = 10;
  expect_rates(c, {0.4, 0.324, 0.256, 0.196, 0.144, 0.1, 0.064, 0.036, 0.016, 0.004, 0, 0, 0});
}

TEST(Schedule, CosineAnnealingWarmRestarts) {
  config::Config c = with("cosine_restarts", 0.4);
  c.lr_scheduler.period_steps = 4;
  c.lr_scheduler.period_factor = 2;
  c.lr_scheduler.min_lr = 0.1;
  expect_rates(
      c, {0.4, 0.35606601717798214, 0.25, 0.1439339828220179, 0.4, 0.38858192987669304,
          0.35606601717798214, 0.30740251485476355, 0.25, 0.19259748514523656, 0.1439339828220179,
          0.111418070123307, 0.4, 0.3971177920604846, 0.38858192987669304, 0.3747204418453819});
  c = with("cosine_restarts", 0.4);
  c.lr_scheduler.period_steps = 5;
  expect_rates(c, {0.4, 0.3618033988749895, 0.2618033988749895, 0.13819660112501053,
                   0.03819660112501053, 0.4, 0.3618033988749895});
}

TEST(Schedule, OneCycleLR) {
  config::Config c = with("one_cycle", 0.4);
  c.training.steps = 20;
  expect_rates(c, {0.016,
                   0.05266873708001013,
                   0.1486687370800101,
                   0.2673312629199899,
                   0.3633312629199899,
                   0.4,
                   0.39498560249403497,
                   0.38019385280538953,
                   0.35636647102842,
                   0.3246982615799052,
                   0.28677720071652035,
                   0.24450480877451572,
                   0.2000008,
                   0.1554967912254843,
                   0.11322439928347969,
                   0.0753033384200948,
                   0.04363512897158001,
                   0.019807747194610516,
                   0.005015997505965022,
                   1.6e-06});
  c.lr_scheduler.decay_steps = 16;
  c.lr_scheduler.warmup_share = 0.25;
  c.lr_scheduler.first_factor = 0.1;
  c.lr_scheduler.last_factor = 0.001;
  expect_rates(c, {0.04, 0.13, 0.31, 0.4, 0.39319198009255585, 0.3732318756761309,
                   0.3414799348810722, 0.3001, 0.25191204521148364, 0.2002, 0.14848795478851634,
                   0.1003, 0.05892006511892782, 0.02716812432386915, 0.007208019907444174, 0.0004});
}

// The decay of transformers' get_wsd_schedule; the warm-up is that of all schedules here.
TEST(Schedule, WarmupStableDecay) {
  config::Config c = with("warmup_stable_decay", 0.8);
  c.lr_scheduler.warmup_steps = 4;
  c.lr_scheduler.stable_steps = 3;
  c.lr_scheduler.decay_steps = 11;
  c.lr_scheduler.decay = "linear";
  c.lr_scheduler.min_lr = 0.4;
  expect_rates(c, {0.2, 0.4, 0.6, 0.8, 0.8, 0.8, 0.8, 0.8, 0.7, 0.6, 0.5, 0.4, 0.4});
  c.lr_scheduler.decay = "cosine";
  EXPECT_NEAR(Schedule(c, kEpoch).rate(8), 0.4 + 0.2 * (1 + std::cos(std::numbers::pi / 4)), 1e-12);
}

config::Config plateau(double lr, double gamma, int64_t patience, double threshold) {
  config::Config c = with("plateau", lr);
  c.lr_scheduler.gamma = gamma;
  c.lr_scheduler.patience = patience;
  c.lr_scheduler.threshold = threshold;
  return c;
}

// The learning rates after each validation.
std::vector<double> rates_after(const config::Config& config, const std::vector<double>& values) {
  Schedule schedule(config, kEpoch);
  std::vector<double> list;
  for (const double value : values) {
    // As a run that goes on from a checkpoint.
    Schedule next(config, kEpoch);
    next.set_validations(schedule.validations());
    next.add_validation(value);
    schedule.set_validations(next.validations());
    list.push_back(schedule.rate(7));
  }
  return list;
}

// The numbers were printed by PyTorch 2.15: ReduceLROnPlateau(factor=0.5, patience=2, cooldown=1,
// min_lr=0.06, threshold=0.01) and (mode="max", factor=0.1, patience=0, threshold=0.5).
TEST(Plateau, IsReduceLROnPlateau) {
  config::Config c = plateau(0.4, 0.5, 2, 0.01);
  c.lr_scheduler.cooldown = 1;
  c.lr_scheduler.min_lr = 0.06;
  EXPECT_THAT(
      rates_after(
          c, {1, .9, .95, .91, .92, .93, .94, .8, .81, .82, .83, .84, .85, .86, .87, .88, .89}),
      testing::Pointwise(testing::DoubleNear(1e-12), {0.4, 0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.2, 0.2,
                                                      0.2, 0.1, 0.1, 0.1, 0.1, 0.06, 0.06, 0.06}));
  c = plateau(0.4, 0.1, 0, 0.5);
  c.validation.monitor = "accuracy";
  EXPECT_THAT(
      rates_after(c, {.1, .14, .16, .2, .25, .3}),
      testing::Pointwise(testing::DoubleNear(1e-12), {0.4, 0.04, 0.04, 0.004, 0.004, 0.0004}));
}

// The margin is a part of the absolute value, so that a negative one is not its own improvement.
TEST(Plateau, LowersTheRateAtANegativeValueThatStays) {
  config::Config c = plateau(1, 0.5, 1, 0.01);
  EXPECT_THAT(rates_after(c, {-1, -1, -1, -1, -1}), testing::ElementsAre(1, 1, 0.5, 0.5, 0.25));
  EXPECT_THAT(rates_after(c, {-1, -1.005, -1.005, -1.02, -1.02}),
              testing::ElementsAre(1, 1, 0.5, 0.5, 0.5));
  c.validation.monitor = "r2";
  EXPECT_THAT(rates_after(c, {-1, -1, -1, -1, -1}), testing::ElementsAre(1, 1, 0.5, 0.5, 0.25));
  EXPECT_THAT(rates_after(c, {-1, -0.995, -0.995, -0.5, -0.5}),
              testing::ElementsAre(1, 1, 0.5, 0.5, 0.5));
}

TEST(Plateau, ANaNIsAValidationWithoutImprovement) {
  const config::Config c = plateau(1, 0.5, 1, 1e-4);
  EXPECT_THAT(rates_after(c, {NAN, NAN, NAN, 5}), testing::ElementsAre(1, 0.5, 0.5, 0.5));
  EXPECT_THAT(rates_after(c, {1, NAN, INFINITY, 0.5}), testing::ElementsAre(1, 1, 0.5, 0.5));
}

TEST(Plateau, OtherSchedulesHaveNone) {
  config::Config c;
  c.lr_scheduler.patience = 0;
  EXPECT_THAT(rates_after(c, {1, 2, 3}), testing::Each(c.optimizer.lr));
}

}  // namespace
}  // namespace runtime::train
