// Every file in configs/ trains for two steps. If its data set is not installed, synthetic data of
// the same shape are used.
#include <algorithm>

#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(folder)) {
    if (e.path().extension() == ".toml") names.push_back(e.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Configs : public ProgramTest, public testing::WithParamInterface<std::string> {};

TEST_P(Configs, TrainsTwoSteps) {
  const std::string file = CONFIGS_FOLDER "/" + GetParam() + ".toml";
  const std::vector<std::string> common = {
      "train",          file, "--max-steps", "2", "--set", "job.dump_folder=run", "--set",
      "device.tune=off"};
  std::vector<std::string> arguments = common;
  // Limits the time and memory of the large models.
  if (GetParam().find("resnet") != std::string::npos)
    arguments.insert(arguments.end(), {"--set", "training.global_batch_size=4"});
  test::ProcessResult r = run(arguments);
  if (r.exit_code == 5 && r.err.find("RUNTIME_DATA_PATH") != std::string::npos) {
    arguments.insert(arguments.end(), {"--set", "dataset.name=synthetic", "--set",
                                       "dataset.samples=64", "--set", "dataset.classes=10"});
    if (GetParam().find("gpt") != std::string::npos)
      arguments.insert(arguments.end(), {"--set", "dataset.task=next_token"});
    r = run(arguments);
  }
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.out, testing::HasSubstr("\"step\":2,"));
  EXPECT_TRUE(fs::exists(folder_.path() / "run/weights.safetensors"));
  for (const std::string& name : files())
    EXPECT_TRUE(name == "run" || name == "tiny.toml" || name == "cache") << name;
}

INSTANTIATE_TEST_SUITE_P(All, Configs, testing::ValuesIn(names_in(CONFIGS_FOLDER)),
                         [](const auto& info) { return info.param; });

using Presets = ProgramTest;

TEST_F(Presets, AreAccepted) {
  const std::vector<std::string> presets = names_in(CONFIGS_FOLDER "/presets");
  EXPECT_GE(presets.size(), 18u);
  for (const std::string& preset : presets) {
    EXPECT_THAT(output({"config", "check", job_, "--set", "model.preset=" + preset}),
                testing::HasSubstr("tiny.toml: ok"))
        << preset;
  }
}

}  // namespace
}  // namespace runtime::cli
