// Checks the order of trials and notes about damaged sweeps.
#include "tools/report/read_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/error.h"
#include "tests/tools/report/files.h"

namespace tools::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string line(int trial, const std::string& value, const std::string& monitor) {
  return R"({"trial":)" + std::to_string(trial) + R"(,"settings":{"optimizer.lr":0.)" +
         std::to_string(trial) + R"(,"optimizer.name":"sgd"},"run":"trial-)" +
         std::to_string(trial) + R"(","rung":0,"status":"done","monitor":")" + monitor +
         R"(","value":)" + value + R"(,"seconds":2.5})" + "\n";
}

Sweep sweep_of(const std::string& text) {
  const test::Folder folder;
  folder.write("sweep.jsonl", text);
  return read_sweep(folder.path());
}

std::vector<int64_t> numbers(const Sweep& sweep) {
  std::vector<int64_t> list;
  for (const Trial& trial : sweep.trials) list.push_back(trial.number);
  return list;
}

TEST(Sweep, TheSmallestLossIsFirstAndWhatFailedLast) {
  const Sweep sweep =
      sweep_of(line(1, "0.5", "validation_loss") + line(2, "null", "validation_loss") +
               line(3, "0.3", "validation_loss"));
  EXPECT_FALSE(sweep.larger_is_better);
  EXPECT_THAT(numbers(sweep), ElementsAre(3, 1, 2));
  EXPECT_THAT(sweep.keys, ElementsAre("optimizer.lr", "optimizer.name"));
  EXPECT_EQ(sweep.trials[0].settings[0].value, "0.3");
  EXPECT_EQ(sweep.trials[0].settings[1].value, "\"sgd\"");
  EXPECT_EQ(sweep.trials[0].seconds, 2.5);
  EXPECT_TRUE(std::isnan(sweep.trials[2].value));
}

TEST(Sweep, TheLargestAccuracyIsFirst) {
  const Sweep sweep = sweep_of(line(1, "0.5", "accuracy") + line(2, "0.7", "accuracy"));
  EXPECT_TRUE(sweep.larger_is_better);
  EXPECT_THAT(numbers(sweep), ElementsAre(2, 1));
}

TEST(Sweep, OfALineAndALaterOneTheLaterCounts) {
  const Sweep sweep = sweep_of(line(1, "0.5", "loss") + line(1, "0.2", "loss"));
  ASSERT_EQ(sweep.trials.size(), 1u);
  EXPECT_EQ(sweep.trials[0].value, 0.2);
}

TEST(Sweep, TheFileOfTheSweepIsInItsPlan) {
  const test::Folder folder;
  folder.write("sweep.jsonl", line(1, "0.5", "loss"));
  EXPECT_TRUE(read_sweep(folder.path()).file.all().empty());
  folder.write("plan.json",
               R"({"sweep":"[parameters]\noptimizer.lr = { log_uniform = [1e-4, 0.3] }\n"})");
  const Sweep sweep = read_sweep(folder.path());
  EXPECT_EQ(sweep.file.find("parameters.optimizer.lr.log_uniform"), "[1e-04, 0.3]");
  EXPECT_TRUE(sweep.notes.empty());
  for (const char* damaged : {"{", R"({"sweep":"a = ["})", R"({"sweep":7})"}) {
    folder.write("plan.json", damaged);
    EXPECT_THAT(read_sweep(folder.path()).notes,
                ElementsAre(HasSubstr("what was searched is left out: ")))
        << damaged;
  }
}

// A trial that was given up early may have a better value than one that went on.
TEST(Sweep, AHigherRungIsBeforeALowerOne) {
  const Sweep sweep = sweep_of(
      "{\"trial\":1,\"rung\":0,\"value\":0.2}\n{\"trial\":2,\"rung\":0,\"value\":0.9}\n"
      "{\"trial\":2,\"rung\":1,\"value\":0.5}\n{\"trial\":3,\"rung\":1,\"value\":0.4}\n"
      "{\"trial\":4,\"rung\":1,\"status\":\"failed\",\"error\":\"why\"}\n");
  EXPECT_THAT(numbers(sweep), ElementsAre(3, 2, 1, 4));
  EXPECT_EQ(sweep.trials[3].error, "why");
}

TEST(Sweep, ResultsSayWhichValuesAreBetter) {
  const test::Folder folder;
  folder.write("sweep.jsonl", line(1, "0.5", "score") + line(2, "0.7", "score"));
  EXPECT_THAT(numbers(read_sweep(folder.path())), ElementsAre(1, 2));
  folder.write("results.json", R"({"mode":"max"})");
  EXPECT_THAT(numbers(read_sweep(folder.path())), ElementsAre(2, 1));
  folder.write("results.json", R"({"mode":"up"})");
  EXPECT_THAT(test::message_of<runtime::DataError>([&] { read_sweep(folder.path()); }),
              HasSubstr("results.mode: expected \"min\" or \"max\", got \"up\""));
}

TEST(Sweep, CutAndDamagedLinesAreNoted) {
  const Sweep sweep = sweep_of("x\n" + line(1, "0.5", "loss") + "{\"tri");
  EXPECT_EQ(sweep.trials.size(), 1u);
  ASSERT_EQ(sweep.notes.size(), 2u);
  EXPECT_THAT(sweep.notes[0], HasSubstr("line 1 is damaged"));
  EXPECT_THAT(sweep.notes[1], HasSubstr("line 3 is cut"));
}

TEST(Sweep, WhatIsWrongIsNamed) {
  const auto error = [](const std::string& text) {
    return test::message_of<runtime::DataError>([&] { sweep_of(text); });
  };
  EXPECT_THAT(error(""), HasSubstr("expected lines of JSON objects with \"trial\""));
  EXPECT_THAT(error(R"({"trial":-1})"), HasSubstr("trial: expected a number from 0"));
  EXPECT_THAT(error(R"({"trial":1,"settings":3})"), HasSubstr("settings: expected an object"));
  EXPECT_THAT(error(R"({"trial":1,"value":"good"})"), HasSubstr("value: expected a number"));
}

TEST(Sweep, RunsAreFoundBelowTheFolderOnly) {
  const test::Folder folder;
  folder.write("sweep/sweep.jsonl", line(1, "0.5", "loss"));
  folder.write("sweep/trial-1/metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  folder.write("elsewhere/metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  const Sweep sweep = read_sweep(folder.path() / "sweep");
  EXPECT_EQ(folder_of(sweep, sweep.trials[0]), folder.path() / "sweep/trial-1");
  Trial forged = sweep.trials[0];
  forged.run = "../elsewhere";
  EXPECT_EQ(folder_of(sweep, forged), "");
  forged.run = (folder.path() / "elsewhere").string();
  EXPECT_EQ(folder_of(sweep, forged), "");
  forged.run = "trial-7";
  EXPECT_EQ(folder_of(sweep, forged), "");
}

TEST(Sweep, WhichMetricsAreBetterWhenLarger) {
  for (const char* metric : {"accuracy", "validation_accuracy", "validation_f1", "auroc"})
    EXPECT_TRUE(is_larger_better(metric)) << metric;
  for (const char* metric : {"loss", "validation_loss", "perplexity", "validation_mae"})
    EXPECT_FALSE(is_larger_better(metric)) << metric;
}

}  // namespace
}  // namespace tools::report
