// Checks which metrics fit which task, and ignored labels on several ranks.
#include "runtime/train/metrics/validation_metrics.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "runtime/config/metrics.h"
#include "runtime/error.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/names.h"
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

// A metric has two halves: what the configuration knows of it, and what computes it.
TEST(ValidationMetrics, EachNameOfTheConfigurationIsWritten) {
  test::expect_both_halves(names_of_rows(config::metrics()), "runtime/config/metrics.cpp",
                           written_metrics(), "its family in runtime/train/metrics");
}

TEST(ValidationMetrics, AccuracyAndPerplexityReadNoPredictions) {
  ValidationMetrics metrics({"accuracy", "perplexity"}, classes(5), 5);
  EXPECT_FALSE(metrics.reads_predictions());
  const MetricValues values = metrics.combine(gather_over(nullptr), std::log(7.0));
  ASSERT_EQ(values.numbers.size(), 1u);
  EXPECT_EQ(values.numbers[0].name, "perplexity");
  EXPECT_NEAR(values.numbers[0].value, 7, 1e-12);
}

// 90 rows of 4 classes from a small generator; class 2 is ignored where it is the label, and still
// is predicted.
Samples ignoring_samples() {
  Samples s{.width = 4, .batch = 7, .outputs = {}, .labels = {}, .targets = {}};
  uint32_t x = 1;
  const auto next = [&] { return (x = x * 1664525u + 1013904223u) >> 8; };
  for (int row = 0; row < 90; ++row) {
    s.labels.push_back(static_cast<int32_t>(next() % 4));
    for (int c = 0; c < 4; ++c) s.outputs.push_back(next() % 1000 / 100.0);
  }
  return s;
}

// The definitions, written out over the rows that count.
struct Direct {
  double precision = 0, recall = 0, f1 = 0, f1_micro = 0, top_2 = 0;
  ConfusionMatrix confusion = ConfusionMatrix(4, std::vector<int64_t>(4));
};

Direct direct_metrics(const Samples& s, int32_t ignored) {
  Direct d;
  double rows = 0, first_two = 0;
  for (size_t row = 0; row < s.labels.size(); ++row) {
    const int32_t label = s.labels[row];
    if (label == ignored) continue;
    const double* const logits = &s.outputs[4 * row];
    ++d.confusion[label][std::max_element(logits, logits + 4) - logits];
    ++rows;
    first_two += std::count_if(logits, logits + 4, [&](double l) { return l > logits[label]; }) < 2;
  }
  double all_hits = 0;
  const auto ratio = [](double a, double b) { return b > 0 ? a / b : 0; };
  for (int c = 0; c < 4; ++c) {
    double hits = 0, labels = 0, predicted = 0;
    for (int i = 0; i < 4; ++i) {
      labels += static_cast<double>(d.confusion[c][i]);
      predicted += static_cast<double>(d.confusion[i][c]);
    }
    hits = static_cast<double>(d.confusion[c][c]);
    all_hits += hits;
    d.precision += ratio(hits, predicted) / 4;
    d.recall += ratio(hits, labels) / 4;
    d.f1 += ratio(2 * hits, labels + predicted) / 4;
  }
  d.f1_micro = all_hits / rows;  // every row has one prediction
  d.top_2 = first_two / rows;
  return d;
}

TEST(ValidationMetrics, LeaveOutIgnoredLabelsOnAnyNumberOfRanks) {
  const Samples s = ignoring_samples();
  const Direct expected = direct_metrics(s, 2);
  const std::vector<std::string> names = {"precision", "recall", "f1",
                                          "f1_micro",  "top_2",  "confusion"};
  for (const int ranks : {1, 2, 5}) {
    on_ranks(ranks, [&](int rank, const Gather& gather) {
      ValidationMetrics metrics(names, classes(4), 4, 2);
      for (int64_t i = rank; i < s.batches(); i += ranks) metrics.add(s.of(i));
      const MetricValues values = metrics.combine(gather, 0);
      EXPECT_NEAR(*values.find("precision"), expected.precision, 1e-14);
      EXPECT_NEAR(*values.find("recall"), expected.recall, 1e-14);
      EXPECT_NEAR(*values.find("f1"), expected.f1, 1e-14);
      EXPECT_NEAR(*values.find("f1_micro"), expected.f1_micro, 1e-14);
      EXPECT_NEAR(*values.find("top_2"), expected.top_2, 1e-14);
      EXPECT_EQ(values.confusion, expected.confusion);
    });
  }
  EXPECT_EQ(expected.confusion[2], std::vector<int64_t>(4)) << "no row has the ignored label";
  EXPECT_NE(direct_metrics(s, -1).f1, expected.f1);
}

// A batch may have no row that counts; a class without rows is left out of the mean of areas.
TEST(ValidationMetrics, TheAreaLeavesOutIgnoredLabels) {
  const Samples s{.width = 3,
                  .batch = 2,
                  .outputs = {5, 0, 0, 0, 5, 0, 9, 0, 0, 0, 0, 9, 0, 4, 1, 6, 0, 2},
                  .labels = {0, 1, 2, 2, 1, 0},
                  .targets = {}};
  ValidationMetrics metrics({"auroc"}, classes(3), 3, 2);
  for (int64_t i = 0; i < s.batches(); ++i) metrics.add(s.of(i));
  EXPECT_EQ(*metrics.combine(gather_over(nullptr), 0).find("auroc"), 1) << "0 and 1 are kept apart";
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
