// Checks grids, and samples that are the same on every machine.
#include "tools/sweep/trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "runtime/error.h"

namespace tools::sweep {
namespace {

using trials::Json;
using Kind = Parameter::Kind;

std::vector<Json> values_of(const std::vector<Trial>& trials, size_t parameter) {
  std::vector<Json> values;
  for (const Trial& trial : trials) values.push_back(trial.settings.at(parameter).second);
  return values;
}

TEST(Grid, HasEveryCombinationTheLastParameterFastest) {
  Sweep sweep;
  sweep.parameters = {{"a.x", Kind::kValues, {1, 2}}, {"a.y", Kind::kValues, {"p", "q", "r"}}};
  const std::vector<Trial> trials = make_trials(sweep);
  EXPECT_THAT(values_of(trials, 0), testing::ElementsAre(1, 1, 1, 2, 2, 2));
  EXPECT_THAT(values_of(trials, 1), testing::ElementsAre("p", "q", "r", "p", "q", "r"));
  EXPECT_EQ(trials[0].settings[0].first, "a.x");
}

TEST(Grid, TooLargeIsAnError) {
  Sweep sweep;
  for (const char* key : {"a.x", "a.y", "a.z"})
    sweep.parameters.push_back({key, Kind::kValues, std::vector<Json>(100, Json(1))});
  EXPECT_THROW(make_trials(sweep), runtime::ConfigurationError);
}

Sweep random_sweep(int64_t trials, uint64_t seed) {
  Sweep sweep;
  sweep.random = true;
  sweep.trials = trials;
  sweep.seed = seed;
  sweep.parameters = {{"a.uniform", Kind::kUniform, {}, -1, 3},
                      {"a.log", Kind::kLogUniform, {}, 1e-4, 1},
                      {"a.integer", Kind::kInteger, {}, 2, 5},
                      {"a.choice", Kind::kValues, {"p", "q", "r"}}};
  return sweep;
}

TEST(Random, SamplesHaveTheirDistributions) {
  const std::vector<Trial> trials = make_trials(random_sweep(4000, 1));
  double sum = 0, logs = 0;
  std::map<std::string, int> counts;
  for (const Trial& trial : trials) {
    const double uniform = trial.settings[0].second, log = trial.settings[1].second;
    EXPECT_GE(uniform, -1);
    EXPECT_LE(uniform, 3);
    EXPECT_GE(log, 1e-4);
    EXPECT_LE(log, 1);
    sum += uniform;
    logs += std::log10(log);
    EXPECT_TRUE(trial.settings[2].second.is_number_integer());
    ++counts[trial.settings[2].second.dump()];
    ++counts[trial.settings[3].second.get<std::string>()];
  }
  // Five standard deviations of a mean of 4000.
  EXPECT_NEAR(sum / 4000, 1, 5 * 4 / std::sqrt(12 * 4000.0));
  EXPECT_NEAR(logs / 4000, -2, 5 * 4 / std::sqrt(12 * 4000.0));
  EXPECT_EQ(counts.size(), 7u);
  for (const char* integer : {"2", "3", "4", "5"}) EXPECT_NEAR(counts[integer], 1000, 140);
  for (const char* choice : {"p", "q", "r"}) EXPECT_NEAR(counts[choice], 1333, 150);
}

TEST(Random, ASampleDependsOnSeedAndNumberOnly) {
  const std::vector<Trial> few = make_trials(random_sweep(5, 1)),
                           many = make_trials(random_sweep(50, 1)),
                           other = make_trials(random_sweep(5, 2));
  for (size_t i = 0; i < few.size(); ++i) {
    EXPECT_EQ(few[i].settings, many[i].settings);
    EXPECT_NE(few[i].settings, other[i].settings);
  }
  EXPECT_NE(few[0].settings, few[1].settings);
}

// The numbers were printed by an implementation of the standard's seed_seq and mt19937_64 in
// Python.
TEST(Random, IsTheSameOnEveryMachine) {
  const std::vector<Trial> trials = make_trials(random_sweep(3, 42));
  EXPECT_EQ(values_of(trials, 1), (std::vector<Json>{0.001596, 0.0001854, 0.05522}));
}

TEST(Devices, AreTheUsableBackendsInTheirOrder) {
  EXPECT_THAT(usable_backends("cuda:0         usable     NVIDIA, 80 GiB\n"
                              "cuda:1         usable     NVIDIA, 80 GiB\n"
                              "rocm           no device  ROCm\n"
                              "cpu:0          usable     AMD EPYC, plugin cpu\n"
                              "slow:0         unusable   a device - usable later\n"
                              "rejected: something\n"),
              testing::ElementsAre("cuda", "cpu"));
  EXPECT_TRUE(usable_backends("").empty());
}

}  // namespace
}  // namespace tools::sweep
