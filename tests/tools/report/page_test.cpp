// Checks the markup of whole pages for runs, several runs and sweeps.
#include "tools/report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "runtime/error.h"
#include "tests/tools/report/files.h"
#include "tools/report/chart.h"
#include "tools/report/table.h"

namespace tools::report {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kForged[] = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&";

size_t count(const std::string& text, const std::string& part) {
  size_t number = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++number;
  return number;
}

// The text without what lies between each `begin` and the next `end`.
std::string without(std::string text, const std::string& begin, const std::string& end) {
  for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at))
    text.erase(at, text.find(end, at + begin.size()) + end.size() - at);
  return text;
}

// The elements of a page with the names of their attributes.
std::string tags_of(const std::string& html) {
  return without(without(without(html, "<script", "</script>"), "<style", "</style>"), "\"", "\"");
}

Run small_run(const std::string& name) {
  Run run;
  run.name = name;
  run.folder = name;
  run.settings = Settings({{"optimizer.lr", "0." + std::to_string(name.size())}, {"same", "1"}});
  run.metrics.curves["loss"] = {{10, 2}, {20, 1}};
  run.metrics.curves["validation_loss"] = {{20, 1.25}};
  run.metrics.steps = 20;
  return run;
}

RankProfile forged_rank() {
  RankProfile rank{};
  rank.device = kForged;
  rank.step_ns = 5e6;
  rank.operations = {{kForged, kForged, kForged, kForged, 1, 2e6, 0.4, 1e9, 1e6, 0.5}};
  rank.timeline = {{kForged, 100}, {kForged, 200}};
  rank.alive_at_peak = {{kForged, 150}};
  return rank;
}

// Every text of an input is forged.
Inputs forged_inputs() {
  Inputs inputs;
  Run run = small_run(kForged);
  run.settings = Settings({{kForged, kForged}, {"job.description", kForged}});
  run.metrics.curves[kForged] = {{1, 1}, {2, 2}};
  run.facts = {{kForged, kForged}};
  run.notes = {kForged};
  run.profile = Profile{1, {forged_rank()}};
  inputs.runs = {run, run};
  Bench bench;
  bench.source = kForged;
  ScalingRow row{};
  row.mesh = kForged;
  bench.rows = {row, row};
  bench.comparisons = {{kForged, Comparison::Kind::kSeconds, 1, 2}};
  inputs.benches = {bench};
  Sweep sweep;
  sweep.name = sweep.monitor = kForged;
  sweep.keys = {kForged};
  sweep.trials = {{1, {{kForged, kForged}}, kForged, kForged, kForged, 0, 0.5, 1},
                  {2, {{kForged, "2"}}, kForged, kForged, kForged, 0, 0.6, 1}};
  sweep.notes = {kForged};
  inputs.sweeps = {sweep};
  return inputs;
}

TEST(Page, NoTextOfAnInputBecomesMarkup) {
  const std::string html = page(forged_inputs());
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_EQ(count(html, "<script>"), 1u) << "the page's own";
  EXPECT_EQ(count(html, "<script"), count(html, "</script>"));
  EXPECT_GT(count(html, "&lt;script&gt;alert(1)"), 20u) << "the texts are there";
}

TEST(Page, NothingIsLoaded) {
  const std::string html = page(forged_inputs());
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_FALSE(std::regex_search(html, std::regex("<(link|iframe|object|embed|base|form)\\b")));
  EXPECT_FALSE(std::regex_search(tags_of(html), std::regex("<[a-z]+ [^>]*\b(src|on[a-z]+)=")));
  EXPECT_EQ(count(html, "href=\""), count(html, "href=\"#")) << "links lead to parts of the page";
  EXPECT_EQ(count(html, "@import"), 0u);
  EXPECT_EQ(count(html, "url("), 0u);
}

TEST(Page, SeveralRunsAreCompared) {
  Inputs inputs;
  inputs.runs = {small_run("first"), small_run("second-run")};
  const std::string html = page(inputs);
  EXPECT_THAT(html, HasSubstr("<title>2 runs - runtime report</title>"));
  for (const char* text : {"Runs side by side", "Settings in which the runs differ", "first",
                           "second-run", "Training loss", "Validation loss", "1.25"})
    EXPECT_THAT(html, HasSubstr(text));
  const std::string differences = html.substr(html.find("Settings in which the runs differ"), 1200);
  EXPECT_THAT(differences, HasSubstr("optimizer.<wbr>lr"));
  EXPECT_THAT(differences.substr(0, differences.find("</table>")), Not(HasSubstr(">same<")));
}

TEST(Page, OneRunHasTrainingAndValidationInOneChart) {
  Inputs inputs;
  inputs.runs = {small_run("only")};
  const std::string html = page(inputs);
  EXPECT_THAT(html, HasSubstr("<h3>Loss</h3>"));
  EXPECT_THAT(html, Not(HasSubstr("<h3>Validation loss</h3>")));
}

TEST(Page, ConfusionIsATable) {
  Inputs inputs;
  inputs.runs = {small_run("only")};
  inputs.runs[0].metrics.confusion = {{30, 10}, {0, 5}};
  inputs.runs[0].metrics.confusion_step = 20;
  const std::string html = page(inputs);
  EXPECT_THAT(html, HasSubstr("Confusion after step 20"));
  EXPECT_THAT(html, HasSubstr("style=\"--share:0.750\" title=\"75 % of the class\">30<"));
}

RankProfile timed_rank(double step_ns) {
  RankProfile rank{};
  rank.step_ns = step_ns;
  rank.forward_ns = 3e6;
  rank.backward_ns = 6e6;
  rank.exposed_ns = 2e6;
  return rank;
}

// Whether the rank waits within the phases or besides them, the parts add up to the step.
TEST(Page, PartsOfAStepAddUpToIt) {
  Inputs inputs;
  inputs.runs = {small_run("only")};
  inputs.runs[0].profile = Profile{1, {timed_rank(11e6)}};
  EXPECT_THAT(page(inputs), HasSubstr("waiting for ranks: 2 ms, 18.2 %"));
  inputs.runs[0].profile = Profile{1, {timed_rank(9e6)}};
  EXPECT_THAT(page(inputs), Not(HasSubstr("waiting for ranks:"))) << "the bar has it once";
  EXPECT_THAT(page(inputs), HasSubstr("2 ms<small>within the phases</small>"));
  EXPECT_THAT(page(inputs), HasSubstr("backward: 6 ms, 66.7 %"));
  EXPECT_THAT(page(inputs), HasSubstr("22.2 %")) << "the exposed share has its own table";
}

TEST(Page, TooManyPathsAreRefused) {
  EXPECT_THAT(test::message_of<runtime::ConfigurationError>(
                  [] { read_inputs(std::vector<std::filesystem::path>(65, "x")); }),
              HasSubstr("got 65 paths, expected at most 64"));
}

TEST(Page, FilesAndFoldersAreToldApart) {
  const test::Folder folder;
  folder.write("run/metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  folder.write("sweep/sweep.jsonl", "{\"trial\":1,\"value\":1}\n");
  const auto bench = folder.write("b.json", "{\"step_ms_median\":1}");
  const Inputs inputs = read_inputs({folder.path() / "run", folder.path() / "sweep", bench});
  EXPECT_EQ(inputs.runs.size(), 1u);
  EXPECT_EQ(inputs.sweeps.size(), 1u);
  EXPECT_EQ(inputs.benches.size(), 1u);
}

// Where the curve of a chart lies: a point in the middle of both axes.
TEST(ChartDrawing, PointsLieOnTheirAxes) {
  Chart chart;
  chart.id = "c";
  chart.title = "A title";
  chart.lines = {{.name = "line", .points = {{0, 0}, {5, 5}, {10, 10}}}};
  EXPECT_THAT(draw(chart).str(), HasSubstr("d=\"M0 1000L500 500L1000 0\""));
}

TEST(ChartDrawing, AChartWithoutPointsIsEmpty) {
  Chart chart;
  chart.lines = {{.name = "line"}};
  EXPECT_TRUE(draw(chart).empty());
}

TEST(ChartDrawing, ALongCurveIsDecimated) {
  Chart chart;
  chart.most_points = 200;
  Line line{.name = "line"};
  for (int i = 0; i < 100000; ++i) line.points.push_back({1.0 * i, i == 777 ? 9.0 : 1.0 * (i % 2)});
  chart.lines = {line};
  const std::string html = draw(chart).str();
  EXPECT_LT(html.size(), 40000u);
  EXPECT_THAT(html, HasSubstr("largest 9."));
}

TEST(TableMarkup, HeadsAndCaptionsAreThere) {
  Table table{.caption = "About <it>", .columns = {{"a"}, {"b", true}}, .rows = {}};
  table.rows.push_back({Cell("x"), Cell(1536, plot::Unit::kBytes)});
  const std::string html = to_html(table).str();
  EXPECT_THAT(html, HasSubstr("<caption>About &lt;it&gt;</caption>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"col\" class=\"number\">b</th>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">x</th>"));
  EXPECT_THAT(html, HasSubstr("data-order=\"1536\">1.5 KiB</td>"));
}

TEST(TableMarkup, BarsStayInTheirCell) {
  EXPECT_THAT(bar("7", 5).str(), HasSubstr("width:100%"));
  EXPECT_THAT(bar("7", -1).str(), HasSubstr("width:0%"));
  EXPECT_THAT(bar("7", 0.0 / 0.0).str(), Not(HasSubstr("width")));
}

}  // namespace
}  // namespace tools::report
