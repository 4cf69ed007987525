// Checks the table, the plot and the files of a sweep.
#include "tools/sweep/results.h"

#include <gmock/gmock.h>

#include "tests/tools/sweep/files.h"

namespace tools::sweep {
namespace {

using testing::ElementsAre;
using testing::Pair;
using Kind = Parameter::Kind;

Record record(int64_t trial, double lr, int ranks, std::optional<double> value) {
  Record r;
  r.trial = trial;
  r.settings = {{"launch.ranks", ranks}, {"optimizer.lr", lr}};
  r.run = "runs/000";
  r.status = value ? "done" : "failed";
  r.monitor = "validation_loss";
  r.value = value;
  r.seconds = 2;
  if (!value) r.error = "exit code 6: the loss is inf";
  return r;
}

Sweep some_sweep() {
  Sweep sweep;
  sweep.name = "name";
  sweep.parameters = {{"launch.ranks", Kind::kValues}, {"optimizer.lr", Kind::kValues}};
  return sweep;
}

const std::vector<Record> kRanking = {record(1, 0.1, 1, 0.5), record(2, 0.01, 2, 0.75),
                                      record(0, 0.001, 1, 1.5), record(3, 1.0, 2, std::nullopt)};

TEST(Results, TableHasALineForEachTrial) {
  EXPECT_EQ(table_of(some_sweep(), kRanking),
            "trial  launch.ranks  optimizer.lr  validation_loss  seconds\n"
            "    1             1           0.1              0.5      2.0\n"
            "    2             2          0.01             0.75      2.0\n"
            "    0             1         0.001              1.5      2.0\n"
            "    3             2           1.0           failed      2.0\n"
            "\ntrial 3 failed: exit code 6: the loss is inf\n");
}

TEST(Results, TableHasTheRungsOfHalving) {
  Sweep sweep = some_sweep();
  sweep.halving = {"steps", {10, 30}, 3};
  EXPECT_THAT(table_of(sweep, kRanking), testing::HasSubstr("optimizer.lr  steps  valid"));
  EXPECT_THAT(table_of(sweep, kRanking), testing::HasSubstr("0.1     10   "));
}

TEST(Results, PlotIsOverTheParameterWithTheMostNumbers) {
  const plot::Plot plot = plot_of(some_sweep(), kRanking);
  EXPECT_EQ(plot.x_label, "optimizer.lr");
  EXPECT_EQ(plot.y_label, "validation_loss");
  EXPECT_TRUE(plot.log_x) << "from 0.001 to 0.1";
  EXPECT_FALSE(plot.log_y);
  ASSERT_EQ(plot.series.size(), 2u);
  EXPECT_EQ(plot.series[0].name, "ranks 1");
  EXPECT_THAT(plot.series[0].points, ElementsAre(Pair(0.001, 1.5), Pair(0.1, 0.5)));
  EXPECT_EQ(plot.series[1].name, "ranks 2");
  EXPECT_THAT(plot.series[1].points, ElementsAre(Pair(0.01, 0.75)));
}

TEST(Results, SampledParametersMakeNoSeries) {
  Sweep sweep = some_sweep();
  sweep.parameters[0].kind = Kind::kInteger;
  EXPECT_EQ(plot_of(sweep, kRanking).series.size(), 1u);
}

TEST(Results, WithoutNumbersThePlotIsOverTheTrials) {
  std::vector<Record> ranking = kRanking;
  for (Record& r : ranking) r.settings = {{"launch.ranks", "a"}, {"optimizer.lr", "b"}};
  const plot::Plot plot = plot_of(some_sweep(), ranking);
  EXPECT_EQ(plot.x_label, "trial");
  ASSERT_EQ(plot.series.size(), 1u);
  EXPECT_THAT(plot.series[0].points, ElementsAre(Pair(0, 1.5), Pair(1, 0.5), Pair(2, 0.75)));
}

TEST(Results, AreShownAndWritten) {
  const Folder folder;
  testing::internal::CaptureStdout();
  show_results(some_sweep(), folder.path(""), kRanking);
  const std::string shown = testing::internal::GetCapturedStdout();
  EXPECT_THAT(shown, testing::HasSubstr("best: trial 1, validation_loss 0.5; "));
  EXPECT_THAT(shown, testing::EndsWith("[launch]\nranks = 1\n\n[optimizer]\nlr = 0.1\n"));
  const trials::Json j = trials::Json::parse(folder.read("results.json"));
  EXPECT_EQ(j["trials"].size(), 4u);
  EXPECT_EQ(j["trials"][0], kRanking[0].to_json());
  EXPECT_EQ(j["mode"], "min");
  EXPECT_THAT(folder.read("results.svg"), testing::StartsWith("<svg"));
}

}  // namespace
}  // namespace tools::sweep
