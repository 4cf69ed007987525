// Checks when early stopping ends a run.
#include "runtime/train/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace runtime::train {
namespace {

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
