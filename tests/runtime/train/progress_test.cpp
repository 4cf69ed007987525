// Checks when plateau lowers the rate and when early stopping ends a run.
#include "runtime/train/progress.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

namespace runtime::train {
namespace {

// The learning rates after each validation.
std::vector<double> rates(const config::Config& config, const std::vector<double>& values) {
  Plateau plateau(config);
  std::vector<double> list;
  for (const double value : values) {
    // As a run that goes on from a checkpoint.
    Plateau next(config);
    next.set_state(plateau.state());
    next.add(value);
    plateau.set_state(next.state());
    list.push_back(config.optimizer.lr * plateau.factor());
  }
  return list;
}

// The numbers were printed by PyTorch 2.15: ReduceLROnPlateau(factor=0.5, patience=2, cooldown=1,
// min_lr=0.06, threshold=0.01) and (mode="max", factor=0.1, patience=0, threshold=0.5).
TEST(Plateau, IsReduceLROnPlateau) {
  config::Config c;
  c.optimizer.lr = 0.4;
  c.lr_scheduler.name = "plateau";
  c.lr_scheduler.gamma = 0.5;
  c.lr_scheduler.patience = 2;
  c.lr_scheduler.cooldown = 1;
  c.lr_scheduler.min_lr = 0.06;
  c.lr_scheduler.threshold = 0.01;
  EXPECT_THAT(
      rates(c, {1, .9, .95, .91, .92, .93, .94, .8, .81, .82, .83, .84, .85, .86, .87, .88, .89}),
      testing::Pointwise(testing::DoubleNear(1e-12), {0.4, 0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.2, 0.2,
                                                      0.2, 0.1, 0.1, 0.1, 0.1, 0.06, 0.06, 0.06}));
  c.validation.monitor = "accuracy";
  c.lr_scheduler = {};
  c.lr_scheduler.name = "plateau";
  c.lr_scheduler.patience = 0;
  c.lr_scheduler.threshold = 0.5;
  EXPECT_THAT(
      rates(c, {.1, .14, .16, .2, .25, .3}),
      testing::Pointwise(testing::DoubleNear(1e-12), {0.4, 0.04, 0.04, 0.004, 0.004, 0.0004}));
}

// The margin is a part of the absolute value, so that a negative one is not its own improvement.
TEST(Plateau, LowersTheRateAtANegativeValueThatStays) {
  config::Config c;
  c.optimizer.lr = 1;
  c.lr_scheduler.name = "plateau";
  c.lr_scheduler.gamma = 0.5;
  c.lr_scheduler.patience = 1;
  c.lr_scheduler.threshold = 0.01;
  EXPECT_THAT(rates(c, {-1, -1, -1, -1, -1}), testing::ElementsAre(1, 1, 0.5, 0.5, 0.25));
  EXPECT_THAT(rates(c, {-1, -1.005, -1.005, -1.02, -1.02}),
              testing::ElementsAre(1, 1, 0.5, 0.5, 0.5));
  c.validation.monitor = "r2";
  EXPECT_THAT(rates(c, {-1, -1, -1, -1, -1}), testing::ElementsAre(1, 1, 0.5, 0.5, 0.25));
  EXPECT_THAT(rates(c, {-1, -0.995, -0.995, -0.5, -0.5}),
              testing::ElementsAre(1, 1, 0.5, 0.5, 0.5));
}

TEST(Plateau, ANaNIsAValidationWithoutImprovement) {
  config::Config c;
  c.optimizer.lr = 1;
  c.lr_scheduler.name = "plateau";
  c.lr_scheduler.gamma = 0.5;
  c.lr_scheduler.patience = 1;
  EXPECT_THAT(rates(c, {NAN, NAN, NAN, 5}), testing::ElementsAre(1, 0.5, 0.5, 0.5));
  EXPECT_THAT(rates(c, {1, NAN, INFINITY, 0.5}), testing::ElementsAre(1, 1, 0.5, 0.5));
}

TEST(Plateau, OtherSchedulesHaveNone) {
  config::Config c;
  c.lr_scheduler.patience = 0;
  EXPECT_THAT(rates(c, {1, 2, 3}), testing::Each(c.optimizer.lr));
}

// The number of validations until the run ends; 0: it does not.
int ends_after(const config::Config& config, const std::vector<double>& values) {
  EarlyStopping stopping(config);
  for (size_t i = 0; i < values.size(); ++i) {
    stopping.add(values[i]);
    if (stopping.ended()) return static_cast<int>(i) + 1;
  }
  return 0;
}

TEST(EarlyStopping, EndsAfterPatience) {
  config::Config c;
  EXPECT_EQ(ends_after(c, {1, 2, 3, 4, 5, 6}), 0);
  c.early_stopping.patience = 2;
  EXPECT_EQ(ends_after(c, {5, 4, 3, 2, 1}), 0);
  EXPECT_EQ(ends_after(c, {5, 6, 4, 4, 4, 1}), 5);
  c.early_stopping.min_delta = 0.5;
  EXPECT_EQ(ends_after(c, {5, 4.6, 4.4, 4.2, 4.0}), 5);
  EXPECT_EQ(ends_after(c, {5, NAN, NAN, 1}), 3);
  EXPECT_EQ(ends_after(c, {NAN, INFINITY, 1}), 2);
  EXPECT_EQ(ends_after(c, {INFINITY, 5, 1, NAN, NAN}), 5);
  EXPECT_EQ(ends_after(c, {-5, -4, -5, -5}), 3);
  c.early_stopping = {.patience = 1};
  c.validation.monitor = "accuracy";
  EXPECT_EQ(ends_after(c, {0.1, 0.2, 0.3, 0.3}), 4);
}

}  // namespace
}  // namespace runtime::train
