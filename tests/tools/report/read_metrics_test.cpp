// Checks curves, epochs and notes about damaged metrics files.
#include "tools/report/read_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/error.h"
#include "tests/tools/report/files.h"

namespace tools::report {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;

// Two epochs of 4 steps with 10 samples each, and one step of the third; a validation repeats the
// line of its step.
constexpr char kRun[] = R"({"step":2,"epoch":0,"loss":3,"samples_per_second":10}
{"step":4,"epoch":0,"loss":2,"samples_per_second":20}
{"step":4,"epoch":0,"loss":2,"samples_per_second":20,"validation_loss":2.5}
{"step":8,"epoch":1,"loss":1,"samples_per_second":40,"validation_loss":1.5}
{"step":9,"epoch":2,"loss":0.5,"samples_per_second":10}
)";

class MetricsTest : public testing::Test {
 protected:
  Metrics read(const std::string& text, const RunSize& size = {.batch = 10}) {
    return read_metrics(folder_.write("metrics.jsonl", text), size);
  }
  static std::vector<double> x_of(const std::vector<Point>& points) {
    std::vector<double> x;
    for (const Point& p : points) x.push_back(p.x);
    return x;
  }
  static std::vector<double> y_of(const std::vector<Point>& points) {
    std::vector<double> y;
    for (const Point& p : points) y.push_back(p.y);
    return y;
  }
  test::Folder folder_;
};

TEST_F(MetricsTest, CurvesAreByStep) {
  const Metrics m = read(kRun);
  EXPECT_THAT(x_of(m.curve("loss")), ElementsAre(2, 4, 8, 9));
  EXPECT_THAT(y_of(m.curve("loss")), ElementsAre(3, 2, 1, 0.5));
  EXPECT_THAT(x_of(m.curve("validation_loss")), ElementsAre(4, 8));
  EXPECT_TRUE(m.curve("nothing").empty());
  EXPECT_EQ(m.steps, 9);
  EXPECT_THAT(m.notes, testing::IsEmpty());
}

TEST_F(MetricsTest, EpochsAndTimesFollowFromSpeedAndBatch) {
  const Metrics m = read(kRun);
  EXPECT_THAT(m.steps_per_epoch, DoubleEq(4));
  EXPECT_THAT(m.curve("loss")[0].epoch, DoubleEq(0.5));
  // 2 steps of 10 samples at 10 samples/s, then 2 at 20: 2 + 1 s; the second epoch 40 at 40.
  EXPECT_THAT(m.curve("loss")[1].seconds, DoubleEq(3));
  ASSERT_EQ(m.epochs.size(), 3u);
  EXPECT_THAT(m.epochs[0].seconds, DoubleEq(3));
  EXPECT_THAT(m.epochs[1].seconds, DoubleEq(1));
  EXPECT_TRUE(m.epochs[1].whole);
  EXPECT_FALSE(m.epochs[2].whole);
  EXPECT_EQ(m.epochs[0].epoch, 0);
  EXPECT_THAT(m.seconds, DoubleEq(5));
}

TEST_F(MetricsTest, EpochsCountFromOne) {
  const Metrics m = read(
      "{\"step\":4,\"epoch\":1,\"samples_per_second\":10}\n"
      "{\"step\":8,\"epoch\":2,\"samples_per_second\":40}\n"
      "{\"step\":9,\"epoch\":3,\"samples_per_second\":10}\n");
  EXPECT_THAT(m.steps_per_epoch, DoubleEq(4));
  ASSERT_EQ(m.epochs.size(), 3u);
  EXPECT_EQ(m.epochs[0].epoch, 0);
  EXPECT_TRUE(m.epochs[1].whole);
  EXPECT_FALSE(m.epochs[2].whole);
}

// Lines after steps 4, 8 and 10; epochs end after steps 5 and 10.
TEST_F(MetricsTest, AnEpochMayEndBetweenTwoLines) {
  const Metrics m = read(
      "{\"step\":4,\"epoch\":1,\"samples_per_second\":10}\n"
      "{\"step\":8,\"epoch\":2,\"samples_per_second\":20}\n"
      "{\"step\":10,\"epoch\":2,\"samples_per_second\":40}\n",
      {.batch = 10, .steps_per_epoch = 5});
  ASSERT_EQ(m.epochs.size(), 2u);
  EXPECT_TRUE(m.epochs[0].whole);
  EXPECT_TRUE(m.epochs[1].whole);
  EXPECT_THAT(m.epochs[0].seconds, DoubleEq(4.5));
  EXPECT_THAT(m.epochs[1].seconds, DoubleEq(2));
}

TEST_F(MetricsTest, WithoutBatchThereAreNoTimes) {
  const Metrics m = read(kRun, {});
  EXPECT_TRUE(std::isnan(m.seconds));
  EXPECT_TRUE(std::isnan(m.curve("loss")[0].seconds));
  EXPECT_TRUE(m.epochs.empty());
}

TEST_F(MetricsTest, ACheckpointTellsTheLengthOfAnEpoch) {
  const Metrics m = read(R"({"step":3,"epoch":0,"loss":1,"samples_per_second":10})",
                         {.batch = 10, .steps_per_epoch = 6});
  EXPECT_THAT(m.curve("loss")[0].epoch, DoubleEq(0.5));
  ASSERT_EQ(m.epochs.size(), 1u);
  EXPECT_FALSE(m.epochs[0].whole);
}

TEST_F(MetricsTest, ACutLastLineIsNoted) {
  const Metrics m = read("{\"step\":1,\"loss\":1}\n{\"step\":2,\"lo");
  EXPECT_THAT(x_of(m.curve("loss")), ElementsAre(1));
  ASSERT_EQ(m.notes.size(), 1u);
  EXPECT_THAT(m.notes[0], HasSubstr("the last line is cut"));
}

TEST_F(MetricsTest, DamagedLinesAreCounted) {
  const Metrics m = read("{\"step\":1,\"loss\":1}\nx\n{\"loss\":3}\n{\"step\":4,\"loss\":4}\n");
  EXPECT_THAT(x_of(m.curve("loss")), ElementsAre(1, 4));
  ASSERT_EQ(m.notes.size(), 1u);
  EXPECT_THAT(m.notes[0], HasSubstr("2 damaged lines are left out; line 2: "));
}

TEST_F(MetricsTest, WhatIsNotFiniteIsNoted) {
  const Metrics m = read(
      "{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":NaN}\n{\"step\":3,\"loss\":null}\n"
      "{\"step\":4,\"loss\":1e999}\n");
  EXPECT_THAT(x_of(m.curve("loss")), ElementsAre(1));
  ASSERT_FALSE(m.notes.empty());
  EXPECT_THAT(m.notes.back(), HasSubstr("loss is not finite in"));
  EXPECT_THAT(m.notes.back(), HasSubstr("the first time after step 2"));
}

TEST_F(MetricsTest, StepsThatAreMadeAgainReplaceThoseBefore) {
  const Metrics m = read(
      "{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":2}\n{\"step\":3,\"loss\":3}\n"
      "{\"step\":2,\"loss\":20}\n{\"step\":3,\"loss\":30}\n");
  EXPECT_THAT(y_of(m.curve("loss")), ElementsAre(1, 20, 30));
}

TEST_F(MetricsTest, TooManyKeysAreLeftOut) {
  std::string line = "{\"step\":1";
  for (int i = 0; i < 1000; ++i) line += ",\"key" + std::to_string(i) + "\":1";
  const Metrics m = read(line + "}\n");
  EXPECT_EQ(m.curves.size(), kMostCurves);
  EXPECT_THAT(m.notes.back(), HasSubstr("more than 100 metrics"));
}

TEST_F(MetricsTest, TheLastTableOfConfusionCounts) {
  const Metrics m = read(
      "{\"step\":1,\"validation_confusion\":[[1,2],[3,4]]}\n"
      "{\"step\":2,\"validation_confusion\":[[5,6],[7,8]]}\n"
      "{\"step\":3,\"validation_confusion\":[[5,6],[7]]}\n"
      "{\"step\":4,\"validation_confusion\":\"no table\"}\n");
  EXPECT_THAT(m.confusion, ElementsAre(ElementsAre(5, 6), ElementsAre(7, 8)));
  EXPECT_EQ(m.confusion_step, 2);
}

TEST_F(MetricsTest, AFileWithoutAnyLineIsRefused) {
  EXPECT_THAT(test::message_of<runtime::DataError>([&] { read(""); }),
              HasSubstr("metrics.jsonl: expected lines of JSON objects with a number \"step\""));
  EXPECT_THAT(test::message_of<runtime::DataError>([&] { read("{\"step\":\"x\"}\n"); }),
              HasSubstr("got none"));
}

}  // namespace
}  // namespace tools::report
