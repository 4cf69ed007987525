// `runtime verify`: equal devices pass, a fault is located, and a recorded run can replace the
// second device.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "runtime/data/safetensors.h"
#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kSimulated =
    "plugins.path=[\"" SIMULATED_FOLDER "\"]";  // of tests/backends/simulated

class Verify : public ProgramTest {
 protected:
  // LeNet and a GPT, so small that the reference needs almost no time.
  std::vector<std::string> lenet() const {
    return {"verify", std::string(CONFIGS_FOLDER) + "/bench_lenet.toml",
            "--set",  "training.global_batch_size=4",
            "--set",  "dataset.samples=16"};
  }
  std::string gpt() const {
    return folder_.write("gpt.toml", R"(
[model]
input = [8]
layers = [
  { type = "embedding", name = "wte", vocabulary = 11, features = 12 },
  { type = "position_embedding", name = "wpe", length = 8 },
  { type = "dropout", probability = 0.1 },
  { type = "residual", layers = [
    { type = "layer_norm", name = "ln_1" },
    { type = "linear", name = "c_attn", features = 36 },
    { type = "attention", heads = 2, causal = true },
    { type = "linear", name = "c_proj", features = 12 } ] },
  { type = "layer_norm", name = "ln_f" },
  { type = "linear", name = "head", features = 11, bias = false, tie = "wte" },
]
[dataset]
name = "synthetic"
samples = 16
classes = 11
task = "next_token"
[training]
global_batch_size = 4
max_norm = 1.0
[optimizer]
name = "adamw"
lr = 1e-3
)");
  }
  static std::vector<std::string> with(std::vector<std::string> words,
                                       const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(Verify, CpuAgreesWithTheReference) {
  EXPECT_THAT(
      output(with(lenet(), {"--set", "device.backend=cpu", "--against", "reference", "--isolate"})),
      AllOf(HasSubstr("step 3  loss 2.3"), HasSubstr("cpu:0 and reference:0 agree")));
  const json j = json::parse(output({"verify", gpt(), "--set", "device.backend=cpu", "--against",
                                     "reference", "--steps", "2", "--json"}));
  EXPECT_EQ(j["equal"], true);
  EXPECT_EQ(j["rtol"], 1e-4);
  ASSERT_EQ(j["steps"].size(), 2u);
  EXPECT_GT(j["steps"][1]["compared"], 40);
  EXPECT_NE(j["steps"][0]["loss"], j["steps"][1]["loss"]);
  EXPECT_LT(j["worst"], 1e-4);
}

TEST_F(Verify, SixteenBitsAreComparedAlsoWhereTheOtherDeviceHasNone) {
  const test::ProcessResult r = run({"verify", job_, "--set", "training.mixed_precision=bf16",
                                     "--against", "cpu", "--isolate", "--json"});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  const bool cpu_has_it =
      output({"devices"}).find("computes in float32, bfloat16, also") != std::string::npos;
  const json j = json::parse(r.out);
  EXPECT_EQ(j["rtol"], 2e-2);
  if (!cpu_has_it) {  // it computes in float32, so the results differ
    EXPECT_THAT(r.err, HasSubstr("cpu:0 does not compute in bfloat16"));
    EXPECT_GT(j["worst"], 1e-4);
  }
  EXPECT_GT(j["steps"][0]["compared"], 10);
}

TEST_F(Verify, AFaultyOperationIsNamed) {
  // The simulated device leaves NaN in the results of pooling.
  const test::ProcessResult r = run(
      with(lenet(), {"--set", kSimulated, "--set", "device.backend=simulated", "--set",
                     "device.simulated.corrupt=avg_pool2d", "--against", "reference", "--json"}));
  EXPECT_EQ(r.exit_code, 6);
  EXPECT_THAT(r.err, AllOf(HasSubstr("simulated:0 and reference:0 differ first in step 1: layer "
                                     "'pool2', operation avg_pool2d"),
                           HasSubstr("[0, 0, 0, 0]: simulated:0 has "),
                           HasSubstr("nan, reference:0 has 0.0"), HasSubstr("next: ")));
  const json j = json::parse(r.out);
  EXPECT_EQ(j["equal"], false);
  EXPECT_EQ(j["steps"].size(), 1u);
  EXPECT_EQ(j["steps"][0]["first"]["layer"], "pool2");
}

// The signal comes while the file is written, or just behind it on a fast machine.
TEST_F(Verify, ASignalLeavesNoHalfOfARecord) {
  test::RuntimeProcess process(
      folder_.path(), {"verify", std::string(CONFIGS_FOLDER) + "/bench_mlp.toml", "--set",
                       "device.backend=reference", "--set", "training.global_batch_size=4", "--set",
                       "dataset.samples=16", "--record", "record", "--steps", "8"});
  const auto begun = [&] {
    const std::set<std::string> names = files();
    return std::any_of(names.begin(), names.end(), [](const std::string& name) {
      return name == "record" || name.starts_with(".record");
    });
  };
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!begun() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  process.send(SIGTERM);
  const test::ProcessResult r = process.wait();
  EXPECT_EQ(r.exit_code, 0) << r.err;
  for (const std::string& name : files()) EXPECT_FALSE(name.starts_with(".record")) << name;
  EXPECT_TRUE(files().contains("record"));
}

TEST_F(Verify, ARecordIsAsGoodAsADevice) {
  output({"verify", job_, "--record", "run.safetensors", "--steps", "2"});
  EXPECT_THAT(output({"verify", job_, "--against", "run.safetensors"}),
              AllOf(HasSubstr("step 2"), HasSubstr("agree")));
  EXPECT_THAT(output({"verify", job_, "--set", "device.backend=cpu", "--against", "run.safetensors",
                      "--steps", "1"}),
              HasSubstr("cpu:0 and run.safetensors agree"));
  // More steps than were recorded, another batch, another configuration.
  EXPECT_EQ(run({"verify", job_, "--against", "run.safetensors", "--steps", "3"}).exit_code, 5);
  EXPECT_THAT(run({"verify", job_, "--against", "run.safetensors", "--set", "debug.seed=7"}).err,
              HasSubstr("saw another batch"));
  EXPECT_THAT(
      run({"verify", job_, "--against", "run.safetensors", "--set", "optimizer.momentum=0.9"}).err,
      HasSubstr("has no 'momentum'"));
}

TEST_F(Verify, ASmallDifferenceIsFoundInItsStepAndTensor) {
  output({"verify", job_, "--record", "run.safetensors", "--steps", "2"});
  const std::string path = (folder_.path() / "run.safetensors").string();
  data::TensorFile file = data::read_safetensors(path);
  data::HostTensor& tensor = file.tensors.at("step/001/value/fc2.weight.gradient");
  float first = 0;
  std::memcpy(&first, tensor.bytes.data(), sizeof(first));
  first += 0.01F;
  std::memcpy(tensor.bytes.data(), &first, sizeof(first));
  data::write_safetensors(path, file);
  const test::ProcessResult r = run({"verify", job_, "--against", "run.safetensors"});
  EXPECT_EQ(r.exit_code, 6);
  EXPECT_THAT(r.err, HasSubstr("differ first in step 2: layer 'fc2'"));
  EXPECT_THAT(r.err, HasSubstr("tensor 'fc2.weight.gradient'"));
  output({"verify", job_, "--against", "run.safetensors", "--rtol", "1"});
}

// A tensor of the record differs by more than rounding explains and by less than the device claims.
TEST_F(Verify, ADeviceMayDifferByWhatItClaims) {
  const auto simulated = [&](const std::vector<std::string>& more) {
    return with({"verify", job_, "--set", kSimulated, "--set", "device.backend=simulated"}, more);
  };
  const std::vector<std::string> against = {"--against", "run.safetensors", "--json"},
                                 claim = {"--set", "device.simulated.claim=5e-4"};
  output(simulated({"--record", "run.safetensors", "--steps", "1"}));
  const std::string path = (folder_.path() / "run.safetensors").string();
  data::TensorFile file = data::read_safetensors(path);
  data::HostTensor& tensor = file.tensors.at("step/000/value/fc2.weight.gradient");
  for (size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
    float number = 0;
    std::memcpy(&number, tensor.bytes.data() + at, sizeof(number));
    number *= 1.0003F;
    std::memcpy(tensor.bytes.data() + at, &number, sizeof(number));
  }
  data::write_safetensors(path, file);
  EXPECT_EQ(run(simulated(against)).exit_code, 6);
  const json claimed = json::parse(output(simulated(with(claim, against))));
  EXPECT_EQ(claimed["rtol"], 5e-4);
  EXPECT_GT(claimed["worst"], 2e-4);
  // The tolerance that the user gives counts more than the claim.
  EXPECT_EQ(run(simulated(with(with(claim, against), {"--rtol", "1e-4"}))).exit_code, 6);
  // The claim of the device that has recorded, or of the other device, counts as much.
  file.metadata["tolerance"] = "5e-4";
  data::write_safetensors(path, file);
  EXPECT_EQ(json::parse(output(simulated(against)))["rtol"], 5e-4);
  const std::vector<std::string> other = {"--set", kSimulated, "--against", "simulated", "--json"};
  EXPECT_EQ(json::parse(output(with(with({"verify", job_}, claim), other)))["rtol"], 5e-4);
}

TEST_F(Verify, WhatCannotBeIsRefused) {
  EXPECT_EQ(run({"verify", job_}).exit_code, 2);
  EXPECT_EQ(run({"verify", job_, "--against", "cpu", "--record", "f"}).exit_code, 2);
  EXPECT_EQ(run({"verify", job_, "--against", "no_such_backend"}).exit_code, 3);
  EXPECT_EQ(run({"verify", job_, "--against", "none.safetensors"}).exit_code, 5);
  const test::ProcessResult r =
      run({"verify", job_, "--record", "run.safetensors", "--max-gib", "1e-6"});
  EXPECT_EQ(r.exit_code, 5);
  EXPECT_THAT(r.err, AllOf(HasSubstr("3 steps take"), HasSubstr("GiB of host memory")));
}

}  // namespace
}  // namespace runtime::cli
