// The table of a rank's numbers as JSON and as a page of Prometheus.
#include "runtime/session/reports/rank_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

namespace runtime::session {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

train::Metrics some_metrics() {
  train::Metrics m;
  m.step = 50;
  m.epoch = 2;
  m.loss = 0.25;
  m.lr = 0.1;
  m.samples_per_second = 1e6;
  m.cost = train::RankCost{0.02, 0.005, 0.001};
  m.device.allocated_bytes = uint64_t{1} << 40;
  return m;
}

TEST(RankNumbers, ALineHasWhatIsKnown) {
  const auto j = nlohmann::json::parse(rank_json({"lenet", 3, "b"}, 12.5, some_metrics()));
  EXPECT_EQ(j, nlohmann::json::parse(
                   R"({"time": 12.5, "rank": 3, "host": "b", "steps": 50, "epoch": 3,
                       "step_seconds": 0.02, "waiting_seconds": 0.005, "data_seconds": 0.001,
                       "allocated_bytes": 1099511627776, "loss": 0.25, "lr": 0.1,
                       "samples_per_second": 1000000})"));
  train::Metrics more = some_metrics();
  more.cost.reset();
  more.device.utilisation = 87;
  more.device.power_watts = 212.5;
  more.device.memory_bytes = 4096;
  const auto k = nlohmann::json::parse(rank_json({"lenet", 0, ""}, 1, more));
  EXPECT_EQ(k["device_utilisation"], 87);
  EXPECT_EQ(k["device_power_watts"], 212.5);
  EXPECT_EQ(k["device_memory_bytes"], 4096);
  EXPECT_FALSE(k.contains("step_seconds"));
  EXPECT_FALSE(k.contains("host"));
}

// Every line of the page is a comment or "name{labels} number".
TEST(RankNumbers, APageHasTheTextFormat) {
  RankPage page({"a \"b\" \\ c\nd", 1, "host"});
  EXPECT_EQ(page.text(), "");
  train::Metrics m = some_metrics();
  m.validation_loss = 0.5;
  m.validation.numbers.push_back({"f1", 0.75});
  page.add(m);
  const std::regex form(
      R"re((# (HELP|TYPE) runtime_\w+ .+)|(runtime_\w+\{run="a \\"b\\" \\\\ c\\nd",rank="1",host="host"\} [-+0-9.eNaInf]+))re");
  std::istringstream lines(page.text());
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(std::regex_match(line, form)) << line;
  EXPECT_THAT(page.text(),
              AllOf(HasSubstr("# TYPE runtime_steps_total counter\nruntime_steps_total{"),
                    HasSubstr("# TYPE runtime_step_seconds gauge\n"), HasSubstr("} 0.005\n"),
                    HasSubstr("runtime_validation_f1{"), Not(HasSubstr("device_power"))));
}

TEST(RankNumbers, ANumberKeepsItsLastValue) {
  RankPage page({"run", 0, "h"});
  train::Metrics m = some_metrics();
  m.validation_loss = 0.5;
  page.add(m);
  m.validation_loss.reset();
  m.loss = std::nan("");
  m.samples_per_second = INFINITY;
  page.add(m);
  EXPECT_THAT(page.text(),
              AllOf(HasSubstr("runtime_validation_loss{run=\"run\",rank=\"0\",host=\"h\"} 0.5\n"),
                    HasSubstr("runtime_loss{run=\"run\",rank=\"0\",host=\"h\"} NaN\n"),
                    HasSubstr("} +Inf\n")));
}

}  // namespace
}  // namespace runtime::session
