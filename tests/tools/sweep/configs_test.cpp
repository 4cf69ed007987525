// The files of configs/sweeps.
#include <algorithm>

#include "tests/tools/sweep/sweep_program.h"

namespace runtime::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> sweeps() {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(CONFIGS_FOLDER "/sweeps"))
    names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class SweepFiles : public SweepTest, public testing::WithParamInterface<std::string> {};

TEST_P(SweepFiles, EveryTrialIsAccepted) {
  const std::string out =
      output({"sweep", CONFIGS_FOLDER "/sweeps/" + GetParam() + ".toml", "--dry-run"});
  EXPECT_THAT(out, testing::StartsWith("trial 0: "));
  EXPECT_GE(std::count(out.begin(), out.end(), '\n'), 4);
  EXPECT_FALSE(fs::exists(folder_.path() / "outputs"));
}

INSTANTIATE_TEST_SUITE_P(All, SweepFiles, testing::ValuesIn(sweeps()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace runtime::cli
