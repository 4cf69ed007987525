// What the progress of training looks like; tests/runtime/train/loop_test.cpp has more.
#include "runtime/session/reports/screen.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/session/reports/metrics_files.h"
#include "runtime/train/formatted.h"
#include "tests/runtime/support/devices.h"

namespace runtime::session {
namespace {

using train::rate_text;

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

Metrics validated() {
  Metrics m{100, 1, 0.25, 0.1, 2000, 0.5, 0.875};
  m.validation = {{{"f1", 0.75}, {"auroc", 0.9375}}, {{3, 1}, {0, 4}}};
  m.epoch_seconds = 1.25;
  return m;
}

TEST(Reporter, JsonHasTheMetricsOfTheValidation) {
  const json line = json::parse(to_json(validated()));
  EXPECT_EQ(line["validation_f1"], 0.75);
  EXPECT_EQ(line["validation_auroc"], 0.9375);
  EXPECT_EQ(line["validation_confusion"], json::parse("[[3,1],[0,4]]"));
  EXPECT_EQ(line["epoch_seconds"], 1.25);
  EXPECT_FALSE(line.contains("tokens_per_second"));
  EXPECT_FALSE(line.contains("mfu"));
}

TEST(Reporter, JsonHasTheRatesThatAreKnown) {
  Metrics m{1, 0, 1, 1, 10, {}, {}};
  m.tokens_per_second = 640;
  m.mfu = 0.5;
  const json line = json::parse(to_json(m));
  EXPECT_EQ(line["tokens_per_second"], 640);
  EXPECT_EQ(line["mfu"], 0.5);
}

TEST(Reporter, OneLineForEachEpoch) {
  std::ostringstream out;
  const auto lines = make_epoch_lines(out, std::cerr, 3);
  lines->note("run folder: x");
  lines->step(validated(), 1, 2);
  lines->line(validated());
  lines->epoch(validated());
  lines->finish();
  EXPECT_EQ(out.str(),
            "run folder: x\nepoch 2/3  step 100  loss 0.2500  validation loss 0.5000  accuracy "
            "0.8750  f1 0.7500  auroc 0.9375  2000 samples/s  1.2 s\n");
}

TEST(Reporter, AValidationWithinAnEpochHasItsLineOnce) {
  Metrics m = validated();
  m.epoch_seconds.reset();
  std::ostringstream out;
  const auto lines = make_epoch_lines(out, std::cerr, 3);
  lines->line(m);
  EXPECT_THAT(out.str(), HasSubstr("epoch 2/3  step 100  loss 0.2500  validation loss 0.5000"));
  const size_t size = out.str().size();
  lines->epoch(m);
  EXPECT_EQ(out.str().size(), size);
}

TEST(Reporter, ALineHasFourMetricsAtMost) {
  Metrics m = validated();
  m.validation.numbers = {{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}};
  std::ostringstream out;
  make_epoch_lines(out, std::cerr, 3)->epoch(m);
  EXPECT_THAT(out.str(), HasSubstr("  a 1.0000  b 2.0000  c 3.0000  d 4.0000  2000 samples/s"));
}

TEST(Reporter, SilenceHasWarningsOnly) {
  std::ostringstream warnings;
  const auto silence = make_silence(warnings);
  silence->note("run folder: x");
  silence->note("warning: the loss is NaN");
  silence->step(validated(), 1, 2);
  silence->line(validated());
  silence->epoch(validated());
  silence->finish();
  EXPECT_EQ(warnings.str(), "warning: the loss is NaN\n");
}

TEST(Reporter, TheBarShowsTokensAndTheUseOfTheDevice) {
  Metrics m{50, 0, 0.5, 0.1, 2000, {}, {}};
  m.tokens_per_second = 128000;
  m.mfu = 0.4125;
  std::ostringstream out;
  make_progress_bar(out, std::cerr, 1, 100)->step(m, 50, 100);
  EXPECT_THAT(out.str(), HasSubstr("loss 0.5000  128000 tokens/s  MFU 41.2%  ETA"));
  EXPECT_THAT(out.str(), Not(HasSubstr("samples/s")));
}

TEST(Reporter, TheBarHasALineForAnEpochWithoutValidation) {
  std::ostringstream out;
  const auto bar = make_progress_bar(out, std::cerr, 3, 300);
  bar->line(validated());
  bar->epoch(validated());
  const std::string once = out.str();
  EXPECT_EQ(std::count(once.begin(), once.end(), '\n'), 1) << "no line twice";
  Metrics m{100, 0, 0.25, 0.1, 2000, {}, {}};
  m.epoch_seconds = 3;
  bar->line(m);
  bar->epoch(m);
  EXPECT_THAT(out.str(), HasSubstr("\nepoch 1/3  step 100  loss 0.2500  2000 samples/s  3.0 s\n"));
}

TEST(Reporter, TheBarIsFullWhereTheRunEnds) {
  std::ostringstream out;
  make_progress_bar(out, std::cerr, 1, 300)->step({300, 0, 0.5, 0.1, 2000, {}, {}}, 300, 38266);
  make_progress_bar(out, std::cerr, 3, 250)->step({225, 2, 0.5, 0.1, 2000, {}, {}}, 25, 100);
  EXPECT_THAT(out.str(), HasSubstr("epoch 1/1 [========================] 300/300  loss"));
  EXPECT_THAT(out.str(), HasSubstr("epoch 3/3 [============            ] 25/50  loss"));
}

TEST(Reporter, ASlowRateIsNotZero) {
  std::ostringstream out;
  Metrics m{100, 0, 0.25, 0.1, 0.0456, {}, {}};
  make_epoch_lines(out, std::cerr, 3)->epoch(m);
  EXPECT_THAT(out.str(), HasSubstr("0.0456 samples/s"));
  EXPECT_EQ(rate_text(45.67), "45.7");
  EXPECT_EQ(rate_text(456.7), "457");
}

TEST(Reporter, AnEpochHasItsOwnLineAndNotThatOfItsValidation) {
  std::ostringstream out;
  const auto bar = make_progress_bar(out, std::cerr, 3, 300);
  Metrics m{100, 0, 0.25, 0.1, 2000, 1.0, {}};
  m.epoch_seconds = 3;
  bar->line(m);
  m.samples_per_second = 1000;
  bar->epoch(m);
  EXPECT_EQ(out.str(),
            "epoch 1/3  step 100  loss 0.2500  validation loss 1.0000  1000 samples/s  3.0 s\n");
}

TEST(Reporter, TheBarShowsTheValidation) {
  Metrics m{100, 0, 0.25, 0.1, 2000, {}, {}};
  std::ostringstream out;
  const auto bar = make_progress_bar(out, std::cerr, 3, 100);
  bar->step(m, 100, 100);
  bar->validation(m, 0, 40);
  const std::string text = out.str();
  const std::string last = text.substr(text.rfind('\r'));
  EXPECT_THAT(last, HasSubstr("epoch 1/3 [                        ] validation, batch 1/40"));
  EXPECT_THAT(last, HasSubstr("training loss 0.2500"));
  EXPECT_THAT(last, Not(HasSubstr("ETA")));
}

// A line that stays is broken at spaces, in a row of which a terminal would break words.
TEST(Reporter, LinesFitTheTerminal) {
  std::ostringstream out;
  const auto bar = make_progress_bar(out, std::cerr, 3, 300, {false, [] { return 40; }});
  Metrics metrics;
  metrics.step = 100;
  metrics.loss = 0.5;
  metrics.samples_per_second = 100;
  metrics.validation_loss = 0.25;
  bar->line(metrics);
  bar->note("a note of more than forty columns is broken, too");
  EXPECT_EQ(out.str(),
            "epoch 1/3  step 100  loss 0.5000\n  validation loss 0.2500  100 samples/s\n"
            "a note of more than forty columns is\n  broken, too\n");
}

// The width of what is drawn, without control sequences.
size_t drawn_columns(int columns) {
  std::ostringstream out;
  const auto bar = make_progress_bar(out, std::cerr, 3, 300, {true, [=] { return columns; }});
  bar->step({50, 0, 0.5, 0.1, 2000, {}, {}}, 50, 100);
  std::string text = out.str();
  for (const char* control : {"\r", "\x1b[K", "\x1b[32m", "\x1b[0m"}) {
    for (size_t at = text.find(control); at != std::string::npos; at = text.find(control))
      text.erase(at, std::string(control).size());
  }
  return text.size();
}

TEST(Reporter, TheBarFitsTheTerminal) {
  const size_t whole = drawn_columns(0);
  EXPECT_EQ(drawn_columns(200), whole);
  for (const int columns : {80, 60, 40, 20}) {
    EXPECT_LT(drawn_columns(columns), static_cast<size_t>(columns)) << columns;
    EXPECT_GT(drawn_columns(columns), static_cast<size_t>(columns) / 2) << columns;
  }
}

TEST(Reporter, ColoursOnlyWhereTheyAreWanted) {
  for (const bool colour : {false, true}) {
    std::ostringstream out;
    const auto bar = make_progress_bar(out, std::cerr, 3, 300, {colour, {}});
    bar->note("warning: hot");
    bar->note("cold");
    bar->step({50, 0, 0.5, 0.1, 2000, {}, {}}, 50, 100);
    EXPECT_EQ(out.str().find("\x1b[33mwarning: hot\x1b[0m\n") != std::string::npos, colour);
    EXPECT_EQ(out.str().find("\x1b[32m") != std::string::npos, colour);
    EXPECT_THAT(out.str(), HasSubstr("\ncold\n"));
  }
}

TEST(Reporter, TheTableHasAColumnForEachMetric) {
  test::TemporaryFolder folder;
  const std::string file = (folder.path() / "metrics.csv").string();
  make_csv(file, 0, std::cerr, {"f1", "auroc"})->line(validated());
  const std::string columns =
      "step,epoch,loss,lr,samples_per_second,validation_loss,validation_accuracy,";
  EXPECT_EQ(test::read_text(file), columns +
                                       "validation_f1,validation_auroc\n"
                                       "100,2,0.25,0.1,2000.0,0.5,0.875,0.75,0.9375\n");
  // A run that goes on with other metrics keeps what it has of them.
  make_csv(file, 100, std::cerr, {"auroc", "recall"})->line({101, 1, 1, 1, 1, {}, {}});
  EXPECT_EQ(test::read_text(file),
            columns +
                "validation_auroc,validation_recall\n"
                "100,2,0.25,0.1,2000.0,0.5,0.875,0.9375,\n101,2,1.0,1.0,1.0,,,,\n");
}

}  // namespace
}  // namespace runtime::session
