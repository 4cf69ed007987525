// `runtime verify --reduce` names the faulty operation and writes it to a folder; `--case` runs it
// again.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/data/safetensors.h"
#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class VerifyReduce : public ProgramTest {
 protected:
  // The arguments for the simulated device with one of its faults.
  std::vector<std::string> words(const std::string& config, const std::string& fault,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> list = {"verify",    config,
                                     "--set",     "device.backend=simulated",
                                     "--set",     "device.simulated." + fault,
                                     "--against", "reference",
                                     "--reduce",  "wrong"};
    list.insert(list.end(), more.begin(), more.end());
    return list;
  }
  test::ProcessResult reduce(const std::string& config, const std::string& fault,
                             const std::vector<std::string>& more = {}) {
    return run(words(config, fault, more), plugins_);
  }
  json replay(const std::vector<std::string>& more, int exit_code) {
    std::vector<std::string> list = {"verify", "--case", "wrong", "--json"};
    list.insert(list.end(), more.begin(), more.end());
    const test::ProcessResult r = run(list, plugins_);
    EXPECT_EQ(r.exit_code, exit_code) << r.err;
    return json::parse(r.out, nullptr, false);
  }

  const std::map<std::string, std::string> plugins_ = {{"RUNTIME_PLUGIN_PATH", SIMULATED_FOLDER}};
  const std::vector<std::string> small_ = {"--set", "training.global_batch_size=4", "--set",
                                           "dataset.samples=16"};
  const std::string lenet_ = CONFIGS_FOLDER "/bench_lenet.toml";
  const std::string gpt_ = folder_.write("gpt.toml", R"(
[model]
input = [8]
layers = [
  { type = "embedding", name = "wte", vocabulary = 11, features = 12 },
  { type = "dropout", probability = 0.1 },
  { type = "layer_norm", name = "ln_1" },
  { type = "linear", name = "c_attn", features = 36 },
  { type = "attention", name = "attn", heads = 2, causal = true },
  { type = "linear", name = "head", features = 11 },
]
[dataset]
name = "synthetic"
samples = 16
classes = 11
task = "next_token"
[training]
global_batch_size = 4
[optimizer]
name = "adamw"
)");
  const std::string batch_norm_ = folder_.write("bn.toml", R"(
[model]
input = [3, 8, 8]
layers = [
  { type = "conv2d", name = "c1", channels = 8, kernel = 3, padding = 1, bias = false },
  { type = "batch_norm", name = "bn1", activation = "relu" },
  { type = "max_pool2d", name = "pool1", kernel = 2 },
  { type = "conv2d", name = "c2", channels = 16, kernel = 3, padding = 1, bias = false },
  { type = "batch_norm", name = "bn2", activation = "relu" },
  { type = "global_avg_pool" },
  { type = "linear", name = "fc", features = 4 },
]
[dataset]
name = "synthetic"
samples = 16
classes = 4
[training]
global_batch_size = 8
)");
};

TEST_F(VerifyReduce, NamesOperationAndLayerAndTheCaseReplays) {
  std::vector<std::string> more = small_;
  more.push_back("--json");
  const test::ProcessResult r = reduce(lenet_, "wrong=avg_pool2d", more);
  EXPECT_EQ(r.exit_code, 6);
  EXPECT_THAT(r.err, AllOf(HasSubstr("is at fault: avg_pool2d of float32 [1, 9, 9, 50] in layer "
                                     "'pool2' (forward)"),
                           HasSubstr("cut down to 1 of 4 rows"),
                           HasSubstr("next: runtime verify --case wrong")));
  const json reduction = json::parse(r.out)["reduction"];
  EXPECT_EQ(reduction["blame"], "operation");
  EXPECT_EQ(reduction["operation"], "avg_pool2d");
  EXPECT_EQ(reduction["layer"], "pool2");

  const json wrong = replay({}, 6);
  EXPECT_EQ(wrong["right"], false);
  EXPECT_EQ(wrong["device"], "simulated:0");
  EXPECT_EQ(wrong["candidates"].size(), 1u);
  EXPECT_EQ(wrong["candidates"][0]["recorded"], true);
  EXPECT_GT(wrong["candidates"][0]["error"], 0.05);
  EXPECT_EQ(replay({"--device", "reference"}, 0)["right"], true);
  if (test::has_backend("cpu")) {
    const json cpu = replay({"--device", "cpu"}, 0);
    EXPECT_EQ(cpu["right"], true);
    EXPECT_GE(cpu["candidates"].size(), 1u);
  }
  EXPECT_THAT(run({"verify", "--case", "wrong"}, plugins_).out,
              AllOf(HasSubstr("layer 'pool2' (forward), step 1 of bench_lenet"),
                    HasSubstr("the recorded one  WRONG: error 0.")));
}

TEST_F(VerifyReduce, ABackwardBringsItsForward) {
  const test::ProcessResult r = reduce(gpt_, "corrupt=attention_backward");
  EXPECT_EQ(r.exit_code, 6);
  EXPECT_THAT(r.err, AllOf(HasSubstr("is at fault: attention_backward"),
                           HasSubstr("in layer 'attn' (backward)"), HasSubstr("actual nan")));
  const json j = json::parse(test::read_text(folder_.path() / "wrong/case.json"));
  EXPECT_EQ(j["forward"]["operation"], "attention");
  EXPECT_EQ(j["attributes"]["heads"], 2);
  EXPECT_EQ(replay({}, 6)["candidates"][0]["error"], nullptr);  // JSON has no infinity
  replay({"--device", "reference"}, 0);
}

// Its first input is the image, not a gradient, and its outputs are those of the weights.
TEST_F(VerifyReduce, AGradientOfWeightsBringsItsForward) {
  const test::ProcessResult r = reduce(lenet_, "wrong=conv2d_pool2d_backward_weights", small_);
  EXPECT_EQ(r.exit_code, 6);
  EXPECT_THAT(
      r.err, AllOf(HasSubstr("is at fault: conv2d_pool2d_backward_weights of float32 [1, 28"),
                   HasSubstr("in layer 'conv1' (backward)"), HasSubstr("cut down to 1 of 4 rows")));
  const json j = json::parse(test::read_text(folder_.path() / "wrong/case.json"));
  EXPECT_EQ(j["forward"]["operation"], "conv2d_pool2d");
  EXPECT_GT(replay({}, 6)["candidates"][0]["error"], 0.05);
  EXPECT_EQ(replay({"--device", "reference"}, 0)["right"], true);
}

TEST_F(VerifyReduce, AnOptimizerThatIsWrong) {
  const test::ProcessResult r = reduce(gpt_, "wrong=adamw");
  EXPECT_EQ(r.exit_code, 6);
  EXPECT_THAT(r.err, HasSubstr("in layer 'optimizer' (update)"));
  EXPECT_EQ(replay({"--device", "reference"}, 0)["right"], true);
}

TEST_F(VerifyReduce, TheStepThatDiffersIsSearched) {
  output({"verify", gpt_, "--set", "device.backend=reference", "--record", "run.safetensors"});
  const std::string path = (folder_.path() / "run.safetensors").string();
  data::TensorFile file = data::read_safetensors(path);
  data::HostTensor& tensor = file.tensors.at("step/001/value/ln_1.weight.gradient");
  std::fill(tensor.bytes.begin(), tensor.bytes.end(), std::byte{0x3F});
  data::write_safetensors(path, file);
  const test::ProcessResult r =
      run({"verify", gpt_, "--set", "device.backend=reference", "--against", "run.safetensors",
           "--reduce", "wrong", "--json"});
  EXPECT_EQ(r.exit_code, 6);
  // The record is wrong, not an operation.
  EXPECT_THAT(r.err, AllOf(HasSubstr("differ first in step 2: layer 'ln_1'"),
                           HasSubstr("no operation is at fault"),
                           HasSubstr("or it is run.safetensors that is wrong")));
  EXPECT_EQ(json::parse(r.out)["steps"].size(), 2u);
}

TEST_F(VerifyReduce, AHealthyDeviceIsNotAccused) {
  const std::string backend = test::has_backend("cpu") ? "cpu" : "simulated";
  for (const std::string& config : {lenet_, batch_norm_, gpt_}) {
    std::vector<std::string> list = {
        "verify",    config,      "--set",    "device.backend=" + backend,
        "--against", "reference", "--reduce", "wrong"};
    if (config == lenet_) list.insert(list.end(), small_.begin(), small_.end());
    const test::ProcessResult r = run(list, plugins_);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    EXPECT_THAT(r.out, HasSubstr("nothing is wrong, and nothing was written"));
    if (backend != "cpu") continue;
    // Rounding always exceeds this tolerance: the steps differ, but no operation is at fault.
    list.insert(list.end(), {"--rtol", "1e-13", "--json"});
    const test::ProcessResult strict = run(list, plugins_);
    EXPECT_EQ(strict.exit_code, 6);
    EXPECT_THAT(strict.err, HasSubstr("no operation is at fault"));
    const json reduction = json::parse(strict.out)["reduction"];
    EXPECT_EQ(reduction["blame"], "rounding");
    EXPECT_EQ(reduction["judged"], reduction["operations"]);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "wrong"));
}

TEST_F(VerifyReduce, AnOperationThatWritesBeyondItsOutputIsNoWrongOperation) {
  // The plan of the memory decides what lies behind an output; often it is nothing.
  int found = 0;
  for (const char* operation : {"batch_norm", "max_pool2d", "conv2d", "batch_norm_backward"}) {
    const test::ProcessResult r = reduce(batch_norm_, std::string("overrun=") + operation);
    EXPECT_THAT(r.err, Not(HasSubstr("is at fault: "))) << operation;
    if (r.exit_code == 0) continue;
    EXPECT_EQ(r.exit_code, 6);
    EXPECT_THAT(r.err, AllOf(HasSubstr("every operation is right alone, yet the step is not"),
                             HasSubstr("The first value that differs is '"),
                             HasSubstr("though no operation between them has it as its output")));
    ++found;
  }
  EXPECT_GT(found, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "wrong"));
}

TEST_F(VerifyReduce, ARaceShowsWhenNobodyWaits) {
  // If the host waited after each operation, the fault would not show. Without waiting, operations
  // queued after this one run before it.
  const test::ProcessResult r = reduce(gpt_, "late=attention");
  EXPECT_EQ(r.exit_code, 6);
  EXPECT_THAT(r.out, HasSubstr("step 1  loss 2."));
  EXPECT_THAT(
      r.err, AllOf(HasSubstr("step 1: every operation is right while simulated:0 waits after each"),
                   HasSubstr("the first value that differs is 'loss'"),
                   Not(HasSubstr("differ first in step"))));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "wrong"));
}

TEST_F(VerifyReduce, AFileIsAsGoodAsADevice) {
  output({"verify", gpt_, "--set", "device.backend=reference", "--record", "run.safetensors",
          "--steps", "1"});
  std::vector<std::string> list = words(gpt_, "wrong=layer_norm");
  *std::find(list.begin(), list.end(), "reference") = "./run.safetensors";
  const test::ProcessResult r = run(list, plugins_);
  EXPECT_EQ(r.exit_code, 6);
  EXPECT_THAT(r.err, HasSubstr("is at fault: layer_norm of"));
}

TEST_F(VerifyReduce, CasesAreRunAsTold) {
  ASSERT_EQ(reduce(gpt_, "wrong=layer_norm").exit_code, 6);
  // The device options come from the configuration, not from the case.
  const json healthy = json::parse(
      output({"verify", gpt_, "--set", "device.backend=simulated", "--case", "wrong", "--json"},
             plugins_));
  EXPECT_EQ(healthy["right"], true);
  EXPECT_EQ(healthy["candidates"][0]["recorded"], true);
  const test::ProcessResult validated =
      run({"verify", gpt_, "--set", "device.backend=simulated", "--set", "plugins.validate=true",
           "--set", "device.simulated.overrun=layer_norm", "--case", "wrong"},
          plugins_);
  EXPECT_EQ(validated.exit_code, 3) << validated.err;
  EXPECT_THAT(validated.err, HasSubstr("the kernel writes a byte 1 behind the end of it"));
  EXPECT_EQ(replay({"--candidate", "reference"}, 6)["candidates"].size(), 1u);
  EXPECT_THAT(run({"verify", "--case", "wrong", "--candidate", "fast"}, plugins_).err,
              HasSubstr("does this in reference; name one of them, or all"));
  EXPECT_EQ(run({"verify", "--case", "wrong", "--candidate", "fast"}, plugins_).exit_code, 2);
  EXPECT_EQ(run({"verify", "--case", "wrong", "--device", "none"}, plugins_).exit_code, 3);
  EXPECT_EQ(run({"verify", "--case", "nowhere"}, plugins_).exit_code, 5);
  EXPECT_EQ(run({"verify", "--case", "wrong", "--set", "a.b=1"}, plugins_).exit_code, 2);
  folder_.write("wrong/case.json", "{}");
  EXPECT_THAT(run({"verify", "--case", "wrong"}, plugins_).err, HasSubstr("has no \"format\""));
}

TEST_F(VerifyReduce, WhatCannotBeIsRefused) {
  folder_.write("mine.txt", "");
  EXPECT_THAT(run({"verify", job_, "--against", "cpu", "--reduce", "."}).err,
              AllOf(HasSubstr("--reduce ."), HasSubstr("name a new or an empty folder")));
  EXPECT_EQ(run({"verify", job_, "--reduce", "wrong"}).exit_code, 2);
  EXPECT_EQ(run({"verify", job_, "--against", "cpu", "--device", "cpu"}).exit_code, 2);
  EXPECT_EQ(run({"verify", "--against", "cpu"}).exit_code, 2);
  EXPECT_EQ(run({"verify", "--case", "wrong", "--rtol", "0.5"}).exit_code, 2);
  EXPECT_THAT(run({"verify", "--help"}).out, HasSubstr("runtime verify --case wrong"));
}

}  // namespace
}  // namespace runtime::cli
