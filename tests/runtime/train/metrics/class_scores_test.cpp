// Compares areas under curves with numbers by hand, on any number of ranks.
#include "runtime/train/metrics/class_scores.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/runtime/train/metrics/fake_ranks.h"

namespace runtime::train {
namespace {

// The definition: pairs of a positive and a negative sample.
double by_pairs(const std::vector<float>& scores, const std::vector<bool>& positive) {
  double larger = 0, pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t j = 0; j < scores.size(); ++j) {
      if (!positive[i] || positive[j]) continue;
      larger += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
      ++pairs;
    }
  }
  return larger / pairs;
}

TEST(AreaUnderRoc, ByHand) {
  EXPECT_EQ(area_under_roc({0.1f, 0.4f, 0.35f, 0.8f}, {false, false, true, true}), 0.75);
  EXPECT_EQ(area_under_roc({1, 2, 3, 4}, {false, false, true, true}), 1);
  EXPECT_EQ(area_under_roc({4, 3, 2, 1}, {false, false, true, true}), 0);
  EXPECT_EQ(area_under_roc({1, 1, 1}, {true, false, true}), 0.5);
}

TEST(AreaUnderRoc, CountsTiesAsOneHalf) {
  std::mt19937 random(1);
  for (const int values : {2, 5, 1000}) {
    std::vector<float> scores;
    std::vector<bool> positive;
    for (int i = 0; i < 300; ++i) {
      scores.push_back(static_cast<float>(random() % values));
      positive.push_back(random() % 3 == 0);
    }
    EXPECT_DOUBLE_EQ(area_under_roc(scores, positive), by_pairs(scores, positive)) << values;
  }
}

TEST(AreaUnderRoc, IsNotDefinedForOneClassOrNan) {
  EXPECT_TRUE(std::isnan(area_under_roc({1, 2}, {true, true})));
  EXPECT_TRUE(std::isnan(area_under_roc({}, {})));
  EXPECT_TRUE(
      std::isnan(area_under_roc({1, std::numeric_limits<float>::quiet_NaN()}, {true, false})));
}

std::vector<double> odds_of(const std::vector<double>& logits) {
  std::vector<double> odds(logits.size());
  log_odds(logits.data(), static_cast<int64_t>(logits.size()), odds.data());
  return odds;
}

TEST(LogOdds, AreThoseOfTheSoftmax) {
  EXPECT_THAT(odds_of({0.25, 1.5}), testing::ElementsAre(-1.25, 1.25));
  for (const std::vector<double>& logits :
       {std::vector<double>{1.0, -2.0, 0.5}, std::vector<double>{2.0, 2.0, 2.0, -7.0},
        std::vector<double>{-1000.0, -1001.0, -1000.5, -1003.0}}) {
    const std::vector<double> odds = odds_of(logits);
    for (size_t c = 0; c < logits.size(); ++c) {
      double others = 0;
      for (size_t i = 0; i < logits.size(); ++i) {
        if (i != c) others += std::exp(logits[i] - logits[c]);
      }
      EXPECT_NEAR(odds[c], -std::log(others), 1e-12);
    }
  }
  EXPECT_NEAR(odds_of({100, 0, 0})[0], 100 - std::log(2), 1e-12) << "p rounds to 1";
  EXPECT_NEAR(odds_of({100, 0, -3})[2], -103, 1e-12) << "1 - p rounds to 1";
}

Samples random_samples(int64_t classes, int64_t present) {
  std::mt19937 random(7);
  Samples s{.width = classes, .batch = 4, .outputs = {}, .labels = {}, .targets = {}};
  for (int i = 0; i < 61; ++i) {
    for (int64_t c = 0; c < classes; ++c) s.outputs.push_back(static_cast<double>(random() % 7));
    s.labels.push_back(static_cast<int32_t>(random() % present));
  }
  return s;
}

double mean_area(const Samples& s, const std::vector<int>& classes) {
  double total = 0;
  for (const int c : classes) {
    std::vector<float> scores;
    std::vector<bool> positive;
    for (int64_t row = 0; row < s.rows(); ++row) {
      const auto begin = s.outputs.begin() + row * s.width;
      scores.push_back(static_cast<float>(odds_of({begin, begin + s.width})[c]));
      positive.push_back(s.labels[row] == c);
    }
    total += by_pairs(scores, positive);
  }
  return total / static_cast<double>(classes.size());
}

TEST(ClassScores, AreTheSameOnAnyNumberOfRanks) {
  const Samples binary = random_samples(2, 2), four = random_samples(4, 4);
  for (const int ranks : {1, 2, 3, 4, 20}) {
    EXPECT_DOUBLE_EQ(
        value_over_ranks(binary, ranks, "auroc",
                         [] { return std::make_unique<ClassScores>(FamilyOptions{.classes = 2}); }),
        mean_area(binary, {1}));
    EXPECT_DOUBLE_EQ(
        value_over_ranks(four, ranks, "auroc",
                         [] { return std::make_unique<ClassScores>(FamilyOptions{.classes = 4}); }),
        mean_area(four, {0, 1, 2, 3}));
  }
}

TEST(ClassScores, LeaveOutAbsentClasses) {
  const auto make = [] { return std::make_unique<ClassScores>(FamilyOptions{.classes = 4}); };
  const Samples three = random_samples(4, 3);
  EXPECT_DOUBLE_EQ(value_over_ranks(three, 2, "auroc", make), mean_area(three, {0, 1, 2}));
  Samples one = random_samples(4, 1);
  on_ranks(1, [&](int, const Gather& gather) {
    ClassScores scores({.classes = 4});
    for (int64_t i = 0; i < one.batches(); ++i) scores.add(one.of(i));
    scores.combine(gather);
    EXPECT_TRUE(std::isnan(scores.value("auroc")));
  });
}

}  // namespace
}  // namespace runtime::train
