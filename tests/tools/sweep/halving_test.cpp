// Successive halving: who goes on, and that going on is the training of an uninterrupted run.
#include <algorithm>

#include "tests/tools/sweep/sweep_program.h"

namespace runtime::cli {
namespace {

class HalvingTest : public SweepTest, public testing::WithParamInterface<std::string> {};

TEST_P(HalvingTest, TheBestGoOnAsIfTheyHadNeverStopped) {
  const bool epochs = GetParam() == "epochs";
  // An epoch has 10 steps.
  const std::vector<int64_t> rungs =
      epochs ? std::vector<int64_t>{1, 2, 4} : std::vector<int64_t>{10, 20, 40};
  write_sweep("[halving]\nfactor = 3\n" + GetParam() + " = " + nlohmann::json(rungs).dump() + "\n");
  output({"sweep", "sweep.toml", "--folder", "out"});
  std::vector<std::vector<std::pair<double, int64_t>>> by_rung(3);
  for (const nlohmann::json& line : lines_of("out"))
    by_rung.at(line["rung"]).emplace_back(line["value"], line["trial"]);
  ASSERT_EQ(by_rung[0].size(), 12u);
  for (size_t rung = 0; rung + 1 < rungs.size(); ++rung) {
    std::sort(by_rung[rung].begin(), by_rung[rung].end());
    std::set<int64_t> expected, found;
    for (size_t i = 0; i < by_rung[rung].size() / 3; ++i) expected.insert(by_rung[rung][i].second);
    for (const auto& [value, trial] : by_rung[rung + 1]) found.insert(trial);
    EXPECT_EQ(found, expected) << "after rung " << rung;
  }
  ASSERT_EQ(by_rung[2].size(), 1u);
  nlohmann::json winner;
  for (const nlohmann::json& line : lines_of("out"))
    if (line["rung"] == 2) winner = line;
  std::vector<std::string> alone = {
      "train", "job.toml",
      "--set", "job.dump_folder=alone",
      "--set", "training." + GetParam() + "=" + std::to_string(rungs[2])};
  for (const auto& [key, value] : winner["settings"].items())
    alone.insert(alone.end(), {"--set", key + "=" + value.dump()});
  output(alone);
  EXPECT_EQ(test::read_text(folder_.path() / "alone/weights.safetensors"),
            test::read_text(folder_.path() / "out" / winner["run"].get<std::string>() /
                            "weights.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(By, HalvingTest, testing::Values("epochs", "steps"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace runtime::cli
