// device.host_fallback on the command line: what falls back is said, planned and refused.
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class FallbackCommands : public ProgramTest {
 protected:
  // A run on the simulated device, which refuses operations of the training and of the validation.
  std::vector<std::string> refusing(std::vector<std::string> arguments) const {
    for (const char* set : {"device.backend=simulated", "device.host_fallback=reference",
                            "device.simulated.refuse=matmul,sgd,correct_count"})
      arguments.insert(arguments.end(), {"--set", set});
    return arguments;
  }
  const std::map<std::string, std::string> environment_ = {
      {"RUNTIME_PLUGIN_PATH", SIMULATED_FOLDER}};
};

constexpr const char* kLine =
    "note: %1 runs on reference:0: simulated:0 refuses it (%1 is refused by";

std::string line(const std::string& op) {
  std::string text = kLine;
  for (size_t at; (at = text.find("%1")) != std::string::npos;) text.replace(at, 2, op);
  return text;
}

TEST_F(FallbackCommands, TrainingNamesWhatFallsBackOnce) {
  const test::ProcessResult r = run(refusing({"train", job_}), environment_);
  ASSERT_EQ(r.exit_code, 0) << r.err;
  for (const char* op : {"matmul", "sgd", "correct_count"}) {
    const size_t first = r.err.find(line(op));
    ASSERT_NE(first, std::string::npos) << op << ": " << r.err;
    EXPECT_EQ(r.err.find(line(op), first + 1), std::string::npos) << op;
  }
  EXPECT_THAT(r.err, Not(HasSubstr("is composed of")));
  const auto reference = run({"train", job_}, environment_);
  const auto last = [](const std::string& out) {
    return nlohmann::json::parse(out.substr(out.rfind('\n', out.size() - 2) + 1));
  };
  EXPECT_EQ(last(r.out)["loss"], last(reference.out)["loss"]);
  EXPECT_EQ(last(r.out)["validation_accuracy"], last(reference.out)["validation_accuracy"]);
}

TEST_F(FallbackCommands, PlanListsItsCosts) {
  const std::vector<std::string> off = {"--set", "device.tune=off"};
  std::vector<std::string> arguments = refusing({"plan", job_});
  const std::string measured = output(arguments, environment_);
  EXPECT_THAT(measured, AllOf(HasSubstr("on reference:0"),
                              HasSubstr("device.host_fallback, a step of rank 0"),
                              HasSubstr("times are measured")));
  EXPECT_THAT(measured, ContainsRegex("note: matmul runs on reference:0"));
  arguments.insert(arguments.end(), off.begin(), off.end());
  const std::string estimated = output(arguments, environment_);
  EXPECT_THAT(estimated, HasSubstr("times are estimated"));
  // fc1 of 8 samples: x [8, 6], w [5, 6], b [5] -> y [8, 5], in float32.
  EXPECT_THAT(estimated,
              ContainsRegex("\nforward +fc1 +matmul +1 +332 +160 +[0-9.]+ +(-|[0-9.]+)\n"));
  // p, g [53], lr and scale [1] -> p, in buffers that are rounded up.
  EXPECT_THAT(estimated, ContainsRegex("\nupdate +optimizer +sgd +1 +[0-9]+ +[0-9]+ "));
  EXPECT_THAT(estimated, ContainsRegex("\nsum +[0-9]+ +[0-9]+ +[0-9]+ "));
  EXPECT_THAT(output({"plan", job_}), Not(HasSubstr("host_fallback")));
}

TEST_F(FallbackCommands, CommandsThatCompareSaySo) {
  const test::ProcessResult r = run(
      refusing({"verify", job_, "--against", "reference", "--steps", "1", "--json"}), environment_);
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.err,
              HasSubstr("note: simulated:0 refuses matmul, sgd, so that reference:0 runs them "
                        "(device.host_fallback); where these agree, it says nothing about "
                        "simulated:0"));
  const auto json = nlohmann::json::parse(r.out)["host_fallback"];
  EXPECT_EQ(json["device"], "reference:0");
  EXPECT_EQ(json["operations"], (std::vector<std::string>{"matmul", "sgd"}));
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"bench", job_, "--steps", "1"},
        std::vector<std::string>{"gradients", job_, "--output", "g.safetensors"}})
    EXPECT_THAT(run(refusing(command), environment_).err, HasSubstr(line("matmul")));
}

const std::string kGpt = R"(
[model]
input = [6]
layers = [
  { type = "embedding", name = "wte", vocabulary = 9, features = 8 },
  { type = "position_embedding", name = "wpe", length = 6 },
  { type = "residual", layers = [
    { type = "layer_norm" },
    { type = "linear", features = 24 },
    { type = "attention", heads = 2, causal = true },
    { type = "linear", features = 8 } ] },
  { type = "linear", features = 9, activation = "gelu" },
]
[dataset]
name = "synthetic"
samples = 32
classes = 9
task = "next_token"
[training]
global_batch_size = 8
epochs = 3
[optimizer]
name = "adamw"
lr = 0.01
[metrics]
log_every_steps = 1
[device]
backend = "reference"
)";

std::vector<double> losses(const std::string& out) {
  std::vector<double> list;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);)
    list.push_back(nlohmann::json::parse(line)["loss"].get<double>());
  return list;
}

// The example for authors of plugins has the mandatory operations in float32, and nothing else.
TEST_F(FallbackCommands, APluginWithFewOperationsTrainsEveryModelInEveryType) {
  const std::string gpt = folder_.write("gpt.toml", kGpt);
  const std::vector<std::string> types = {"training.dtype=float32", "training.dtype=float64",
                                          "training.mixed_precision=bf16"};
  for (const std::string& type : types) {
    const test::ProcessResult few =
        run({"train", gpt, "--set", type, "--set", "device.backend=example", "--set",
             "device.host_fallback=reference", "--set",
             std::string("plugins.path=[\"") + EXAMPLE_PLUGIN + "\"]"});
    ASSERT_EQ(few.exit_code, 0) << few.err;
    EXPECT_THAT(few.err, HasSubstr("note: attention runs on reference:0: example:0 refuses it"));
    const std::vector<double> actual = losses(few.out);
    const std::vector<double> expected = losses(output({"train", gpt, "--set", type}));
    ASSERT_EQ(expected.size(), 12u);
    ASSERT_EQ(actual.size(), expected.size());
    // Sums of products in another order; one rounding of a weight to bfloat16 may differ.
    const double tolerance = type.ends_with("bf16") ? 1e-3 : 1e-5;
    for (size_t i = 0; i < actual.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], tolerance * expected[i]) << type << ", step " << i + 1;
    EXPECT_LT(actual.back(), actual.front());
  }
}

TEST_F(FallbackCommands, ADeviceThatCannotStandInIsRefused) {
  const auto error = [&](const std::string& backend, const std::string& fallback, int code) {
    const test::ProcessResult r = run({"train", job_, "--set", "device.backend=" + backend, "--set",
                                       "device.host_fallback=" + fallback},
                                      environment_);
    EXPECT_EQ(r.exit_code, code) << r.err;
    return r.err;
  };
  EXPECT_THAT(error("simulated", "referense", 3),
              AllOf(HasSubstr("no plugin is named 'referense'"), HasSubstr("reference")));
  EXPECT_THAT(error("reference", "reference", 2),
              HasSubstr("device.host_fallback = \"reference\": the run computes on reference:0, "
                        "which cannot stand in for itself; expected another plugin"));
  EXPECT_THAT(
      error("reference", "simulated", 3),
      HasSubstr("device.host_fallback = \"simulated\": the host cannot access the memory of "
                "simulated:0; expected a plugin whose devices compute in host memory"));
}

}  // namespace
}  // namespace runtime::cli
