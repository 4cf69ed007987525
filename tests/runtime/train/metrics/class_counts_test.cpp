// Compares counted metrics with numbers by hand.
#include "runtime/train/metrics/class_counts.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "runtime/error.h"
#include "tests/runtime/train/metrics/fake_ranks.h"

namespace runtime::train {
namespace {

using testing::ElementsAre;

// Labels 0 0 0 1 1 2, predicted as 0 0 1 1 0 1; class 3 occurs nowhere.
Samples six_samples() {
  const std::vector<int> predicted = {0, 0, 1, 1, 0, 1};
  Samples s{.width = 4, .batch = 2, .outputs = {}, .labels = {0, 0, 0, 1, 1, 2}, .targets = {}};
  for (const int c : predicted) {
    for (int i = 0; i < 4; ++i) s.outputs.push_back(i == c ? 2.0 : -0.1 * i);
  }
  return s;
}

TEST(ClassCounts, KnowTheirMetrics) {
  EXPECT_THROW(ClassCounts({.classes = 2, .outputs = 2}).value("later"), InternalError);
  EXPECT_THROW(ClassCounts({.classes = 2, .outputs = 2}).value("later_micro"), InternalError);
}

TEST(ClassCounts, PrecisionRecallAndF1ByHand) {
  const auto make = [] {
    return std::make_unique<ClassCounts>(FamilyOptions{.classes = 4, .outputs = 4});
  };
  const std::vector<std::pair<std::string, double>> expected = {
      {"precision", (2.0 / 3 + 1.0 / 3 + 0 + 0) / 4},
      {"recall", (2.0 / 3 + 1.0 / 2 + 0 + 0) / 4},
      {"f1", (2 * 2.0 / 6 + 2 * 1.0 / 5 + 0 + 0) / 4},
      {"precision_micro", 3.0 / 6},
      {"recall_micro", 3.0 / 6},
      {"f1_micro", 3.0 / 6},
  };
  for (const auto& [name, value] : expected) {
    for (const int ranks : {1, 2, 3, 4})
      EXPECT_DOUBLE_EQ(value_over_ranks(six_samples(), ranks, name, make), value)
          << name << " on " << ranks;
  }
}

TEST(ClassCounts, TheConfusionMatrixHasLabelsAsRows) {
  for (const int ranks : {1, 3}) {
    on_ranks(ranks, [&](int rank, const Gather& gather) {
      const Samples samples = six_samples();
      ClassCounts counts({.classes = 4, .outputs = 4, .names = {"confusion"}});
      for (int64_t i = rank; i < samples.batches(); i += ranks) counts.add(samples.of(i));
      counts.combine(gather);
      EXPECT_THAT(counts.table(), ElementsAre(ElementsAre(2, 1, 0, 0), ElementsAre(1, 1, 0, 0),
                                              ElementsAre(0, 1, 0, 0), ElementsAre(0, 0, 0, 0)));
    });
  }
}

// A model may have more outputs than the data set has classes: such predictions are wrong, and are
// predictions of no class.
TEST(ClassCounts, OutputsBeyondTheClassesAreWrong) {
  const Samples s{.width = 3,
                  .batch = 4,
                  .outputs = {1, 0, 0, 0, 0, 1, 0, 1, 0},
                  .labels = {0, 0, 1},
                  .targets = {}};
  const auto make = [] {
    return std::make_unique<ClassCounts>(
        FamilyOptions{.classes = 2, .outputs = 3, .names = {"confusion"}});
  };
  EXPECT_DOUBLE_EQ(value_over_ranks(s, 1, "precision_micro", make), 1);
  EXPECT_DOUBLE_EQ(value_over_ranks(s, 1, "recall_micro", make), 2.0 / 3);
}

TEST(ClassCounts, ThePredictedClassIsThatOfCorrectCount) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const double equal[] = {1, 2, 2}, nan[] = {1, kNan, kNan}, falling[] = {3, 2, 1};
  EXPECT_EQ(predicted_class(equal, 3), 1);
  EXPECT_EQ(predicted_class(nan, 3), 1);
  EXPECT_EQ(predicted_class(falling, 3), 0);
}

TEST(TopK, CountsLabelsAmongTheLargest) {
  // The labels are in places 0, 1, 2 and (of equal logits, behind the first two) 2.
  const Samples s{.width = 4,
                  .batch = 3,
                  .outputs = {9, 1, 2, 3, 1, 2, 3, 0, 4, 3, 2, 1, 7, 7, 7, 0},
                  .labels = {0, 1, 2, 2},
                  .targets = {}};
  const auto make = [] {
    return std::make_unique<TopK>(FamilyOptions{.names = {"top_2", "top_3"}});
  };
  for (const int ranks : {1, 2}) {
    EXPECT_DOUBLE_EQ(value_over_ranks(s, ranks, "top_2", make), 2.0 / 4);
    EXPECT_DOUBLE_EQ(value_over_ranks(s, ranks, "top_3", make), 4.0 / 4);
  }
}

}  // namespace
}  // namespace runtime::train
