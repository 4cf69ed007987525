// plugins.validate on the command line: good plugins train with the same losses and no finding, and
// a run ends with exit code 3 at the first fault.
#include <nlohmann/json.hpp>

#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::map<std::string, std::string> kEnvironment = {{"RUNTIME_PLUGIN_PATH", SIMULATED_FOLDER}};

struct Training {
  const char* name;
  const char* config;
  std::vector<std::string> settings;
  const char* device;
  int ranks = 1;
};

void PrintTo(const Training& training, std::ostream* stream) { *stream << training.name; }

const std::vector<std::string> kLenet = {"training.global_batch_size=4", "dataset.samples=16"};
const std::vector<std::string> kResnet = {"training.global_batch_size=2", "dataset.samples=8"};
const std::vector<std::string> kGpt = {"model.preset=gpt_char_small",
                                       "training.global_batch_size=2", "dataset.samples=8"};

const Training kTrainings[] = {
    {"LenetOnReference", "bench_lenet.toml", kLenet, "reference"},
    {"LenetOnSimulated", "bench_lenet.toml", kLenet, "simulated"},
    {"LenetOnTwoReferences", "bench_lenet.toml", kLenet, "reference", 2},
    {"LenetOnTwoSimulated", "bench_lenet.toml", kLenet, "simulated", 2},
    {"GptOnReference", "bench_gpt.toml", kGpt, "reference"},
    {"GptOnTwoSimulated", "bench_gpt.toml", kGpt, "simulated", 2},
    {"ResnetOnReference", "bench_resnet18.toml", kResnet, "reference"},
};

std::vector<std::string> arguments_for(const Training& training, bool validate) {
  std::vector<std::string> arguments = {
      "train",       std::string(CONFIGS_FOLDER "/") + training.config,
      "--max-steps", "3",
      "--nproc",     std::to_string(training.ranks),
      "--progress",  "lines"};
  std::vector<std::string> settings = training.settings;
  settings.push_back(std::string("device.backend=") + training.device);
  settings.push_back(std::string("plugins.validate=") + (validate ? "true" : "false"));
  for (const std::string& setting : settings) {
    arguments.emplace_back("--set");
    arguments.push_back(setting);
  }
  return arguments;
}

double last_loss(const std::string& out) {
  const size_t line = out.rfind("{\"step\"");
  if (line == std::string::npos) return -1;
  return nlohmann::json::parse(out.substr(line, out.find('\n', line) - line))["loss"];
}

class ValidatedTraining : public ProgramTest, public testing::WithParamInterface<Training> {};

TEST_P(ValidatedTraining, HasNoFindingAndTheSameLoss) {
  const test::ProcessResult plain = run(arguments_for(GetParam(), false), kEnvironment);
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  const test::ProcessResult validated = run(arguments_for(GetParam(), true), kEnvironment);
  ASSERT_EQ(validated.exit_code, 0) << validated.err;
  EXPECT_THAT(validated.err, Not(HasSubstr("validation: ")));
  EXPECT_GT(last_loss(plain.out), 0) << plain.out;
  EXPECT_EQ(last_loss(plain.out), last_loss(validated.out));
}

INSTANTIATE_TEST_SUITE_P(Plugins, ValidatedTraining, testing::ValuesIn(kTrainings),
                         [](const auto& info) { return info.param.name; });

class ValidateCommands : public ProgramTest {
 protected:
  test::ProcessResult train(const std::string& fault, bool validate) {
    const Training training = {"", "bench_lenet.toml", kLenet, "simulated"};
    std::vector<std::string> arguments = arguments_for(training, validate);
    arguments.insert(arguments.end(), {"--set", "device.simulated." + fault});
    return run(arguments, kEnvironment);
  }
};

TEST_F(ValidateCommands, AFaultOfAPluginEndsTheRun) {
  const test::ProcessResult r = train("overrun=conv2d", true);
  EXPECT_EQ(r.exit_code, 3) << r.err;
  EXPECT_THAT(r.err, AllOf(HasSubstr("layer 'conv2'"),
                           HasSubstr("validation: the plugin is at fault: simulated:0 stream"),
                           HasSubstr("output 0: the kernel writes a byte 1 behind the end of it")));
}

TEST_F(ValidateCommands, TheCheckOfGradientsValidatesToo) {
  folder_.write("swish.toml", R"(
[model]
input = [4]
layers = [ { type = "linear", features = 4 }, { type = "extra.swish" }, { type = "linear", features = 2 } ]
[dataset]
name = "synthetic"
samples = 8
classes = 2
[training]
global_batch_size = 4
[plugins]
path = [")" FIXTURES "/liboperation_set.so"
                              R"("]
)");
  const test::ProcessResult r =
      run({"verify", "swish.toml", "--gradients", "--set", "device.backend=simulated", "--set",
           "plugins.validate=true", "--set", "device.simulated.overrun=multiply"},
          kEnvironment);
  EXPECT_EQ(r.exit_code, 3) << r.err;
  EXPECT_THAT(r.err, HasSubstr("the kernel writes a byte 1 behind the end of it"));
}

TEST_F(ValidateCommands, NothingIsCheckedWithoutTheKey) {
  const test::ProcessResult r = train("overrun=conv2d", false);
  EXPECT_EQ(r.exit_code, 0) << r.err;
}

TEST_F(ValidateCommands, AFallbackDeviceMayUseHostMemoryOfTheOther) {
  const Training training = {"", "bench_lenet.toml", kLenet, "simulated"};
  std::vector<std::string> arguments = arguments_for(training, true);
  for (const char* set : {"device.simulated.refuse=conv2d", "device.host_fallback=reference"})
    arguments.insert(arguments.end(), {"--set", set});
  const test::ProcessResult r = run(arguments, kEnvironment);
  EXPECT_EQ(r.exit_code, 0) << r.err;
}

}  // namespace
}  // namespace runtime::cli
