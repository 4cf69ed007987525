#include "runtime/train/metrics/validation_metrics.h"

#include <gmock/gmock.h>

#include <cmath>

#include "runtime/error.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/train/metrics/fake_ranks.h"

namespace runtime::train {
namespace {

using testing::HasSubstr;

data::SampleSpec classes(int64_t count) {
  data::SampleSpec spec;
  spec.classes = count;
  return spec;
}

data::SampleSpec numbers(int64_t count) {
  data::SampleSpec spec;
  spec.targets = count;
  return spec;
}

std::string refused(const std::string& name, const data::SampleSpec& spec) {
  return test::message_of<ConfigurationError>([&] { check_metrics({name}, spec); });
}

TEST(ValidationMetrics, RefuseWhatDoesNotFit) {
  EXPECT_THAT(refused("top_5", classes(3)), HasSubstr("always 1 with the 3 classes"));
  EXPECT_THAT(refused("top_3", classes(3)), HasSubstr("use a k below that"));
  EXPECT_EQ(refused("top_2", classes(3)), "");
  EXPECT_THAT(refused("auroc", numbers(1)), HasSubstr("does not fit a data set for regression"));
  EXPECT_THAT(refused("r2", classes(2)), HasSubstr("does not fit a data set for classification"));
  EXPECT_THAT(refused("confusion", classes(1001)), HasSubstr("expected at most 1000"));
  EXPECT_EQ(refused("confusion", classes(1000)), "");
}

TEST(ValidationMetrics, AccuracyAndPerplexityReadNoPredictions) {
  ValidationMetrics metrics({"accuracy", "perplexity"}, classes(5), 5);
  EXPECT_FALSE(metrics.reads_predictions());
  const MetricValues values = metrics.combine(gather_over(nullptr), std::log(7.0));
  ASSERT_EQ(values.numbers.size(), 1u);
  EXPECT_EQ(values.numbers[0].name, "perplexity");
  EXPECT_NEAR(values.numbers[0].value, 7, 1e-12);
}

TEST(ValidationMetrics, HaveTheOrderOfTheConfiguration) {
  ValidationMetrics metrics({"auroc", "f1", "accuracy", "top_2", "confusion", "recall"}, classes(3),
                            3);
  const Samples s{.width = 3,
                  .batch = 3,
                  .outputs = {3, 1, 0, 0, 2, 1, 2, 1, 0},
                  .labels = {0, 1, 2},
                  .targets = {}};
  metrics.add(s.of(0));
  const MetricValues values = metrics.combine(gather_over(nullptr), 1);
  std::vector<std::string> names;
  for (const NamedValue& number : values.numbers) names.push_back(number.name);
  EXPECT_THAT(names, testing::ElementsAre("auroc", "f1", "top_2", "recall"));
  EXPECT_DOUBLE_EQ(*values.find("top_2"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(*values.find("recall"), 2.0 / 3);
  EXPECT_EQ(values.find("mse"), nullptr);
  EXPECT_EQ(values.confusion.size(), 3u);
}

}  // namespace
}  // namespace runtime::train
