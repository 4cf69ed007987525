// `runtime verify --against` a step in the names and layouts of another framework, which is made
// here from a run of the reference.
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/data/safetensors.h"
#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

using data::HostTensor;
using data::TensorFile;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// [N, C, H, W] of [N, H, W, C].
HostTensor channels_first(const HostTensor& t) {
  const int64_t n = t.dims[0], pixels = t.dims[1] * t.dims[2], c = t.dims[3];
  HostTensor result{t.dtype, {n, c, t.dims[1], t.dims[2]}, t.bytes};
  for (int64_t sample = 0; sample < n; ++sample) {
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      for (int64_t channel = 0; channel < c; ++channel) {
        const int64_t to = (sample * c + channel) * pixels + pixel;
        const int64_t from = (sample * pixels + pixel) * c + channel;
        std::memcpy(&result.bytes[to * 4], &t.bytes[from * 4], 4);
      }
    }
  }
  return result;
}

class VerifyRecord : public ProgramTest {
 protected:
  // The first step of the job on the reference, with the outputs that `layers` names, each with its
  // name in `runtime verify --record`.
  TensorFile record(const std::vector<std::string>& job,
                    const std::map<std::string, std::string>& layers) {
    run_job("gradients", job, {"--output", "gradients.safetensors"});
    run_job("verify", job, {"--record", "own.safetensors", "--steps", "1"});
    TensorFile own = data::read_safetensors((folder_.path() / "own.safetensors").string());
    TensorFile file;
    for (auto& [name, t] :
         data::read_safetensors((folder_.path() / "gradients.safetensors").string()).tensors) {
      if (name == "features") {
        file.tensors["input"] = t.dims.size() == 4 ? channels_first(t) : t;
      } else if (name == "labels") {
        file.tensors["target"] = t;
      } else if (name == "loss" || name.starts_with("weights.")) {
        file.tensors[name] = t;
      } else if (name != "logits") {
        file.tensors["gradient." + name] = t;
        // Matrices behind images are in our order in `own`.
        if (t.dims.size() == 1 || !layers.contains("pool1"))
          file.tensors["updated." + name] = own.tensors.at("step/000/value/" + name);
      }
    }
    for (const auto& [name, value] : layers) {
      const HostTensor& t = own.tensors.at("step/000/value/" + value);
      file.tensors["output." + name] = t.dims.size() == 4 ? channels_first(t) : t;
    }
    return file;
  }
  TensorFile tiny() {
    return record({job_}, {{"fc1.activation", "fc1.activation"}, {"fc2", "fc2.add"}});
  }
  void run_job(const std::string& command, std::vector<std::string> job,
               const std::vector<std::string>& more) {
    job.insert(job.begin(), command);
    job.insert(job.end(), more.begin(), more.end());
    output(job);
  }
  test::ProcessResult against(const TensorFile& file, std::vector<std::string> job) {
    data::write_safetensors((folder_.path() / "theirs.safetensors").string(), file);
    job.insert(job.begin(), "verify");
    job.insert(job.end(), {"--against", "theirs.safetensors", "--json"});
    return run(job);
  }
  // Expects that the record is refused with these words.
  void expect_refused(const TensorFile& file, const std::string& name, const std::string& what,
                      const std::string& expected) {
    const test::ProcessResult r = against(file, {job_});
    EXPECT_EQ(r.exit_code, 5) << name << r.err;
    EXPECT_THAT(r.err, AllOf(HasSubstr("theirs.safetensors: '" + name + "' " + what),
                             HasSubstr("; expected " + expected), HasSubstr("record the step")));
  }
};

void add_to_first(HostTensor& tensor, float amount) {
  float first = 0;
  std::memcpy(&first, tensor.bytes.data(), sizeof(first));
  first += amount;
  std::memcpy(tensor.bytes.data(), &first, sizeof(first));
}

TEST_F(VerifyRecord, AnEqualStepPasses) {
  // The batch of the record counts, whatever the configuration says of its size.
  const test::ProcessResult r =
      against(tiny(), {job_, "--set", "training.global_batch_size=30", "--set", "debug.seed=5"});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  const json j = json::parse(r.out);
  EXPECT_EQ(j["equal"], true);
  EXPECT_EQ(j["worst"], 0);
  EXPECT_EQ(j["steps"][0]["compared"], 2 + 1 + 4 + 4) << r.out;
  EXPECT_FALSE(j["steps"][0].contains("only_recorded"));
}

TEST_F(VerifyRecord, ImagesHaveTheirChannelsFirst) {
  const std::vector<std::string> job = {std::string(CONFIGS_FOLDER) + "/bench_lenet.toml", "--set",
                                        "training.global_batch_size=3", "--set",
                                        "device.backend=reference"};
  TensorFile file = record(job, {{"pool1", "pool1.avg_pool2d"},
                                 {"conv2.activation", "conv2.activation"},
                                 {"pool2", "pool2.avg_pool2d"},
                                 {"fc2", "fc2.add"}});
  const test::ProcessResult r = against(file, job);
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(json::parse(r.out)["worst"], 0);
  add_to_first(file.tensors.at("output.pool2"), 1);
  EXPECT_THAT(against(file, job).err,
              HasSubstr("layer 'pool2', operation avg_pool2d, tensor 'pool2.avg_pool2d'"));
}

TEST_F(VerifyRecord, AValueThatDiffersIsNamed) {
  TensorFile file = tiny();
  add_to_first(file.tensors.at("output.fc2"), 0.25F);
  add_to_first(file.tensors.at("gradient.fc1.weight"), 0.25F);
  const test::ProcessResult r = against(file, {job_});
  EXPECT_EQ(r.exit_code, 6);
  EXPECT_THAT(r.err, AllOf(HasSubstr("differ first in step 1: layer 'fc2', operation matmul, "
                                     "tensor 'fc2.add' [8, 3]"),
                           HasSubstr("[0, 0]: reference:0 has "),
                           HasSubstr(", theirs.safetensors has "), HasSubstr("next: ")));
}

TEST_F(VerifyRecord, APartIsEnough) {
  const TensorFile all = tiny();
  TensorFile some;
  some.tensors["output.fc2"] =
      all.tensors.at("output.fc2");  // of the run's first batch and weights
  const test::ProcessResult r = against(some, {job_});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(json::parse(r.out)["steps"][0]["compared"], 1);
}

TEST_F(VerifyRecord, WhatDoesNotFitIsRefused) {
  const TensorFile right = tiny();
  const HostTensor loss = right.tensors.at("loss");
  TensorFile file = right;
  file.tensors["fc1.weight"] = loss;
  expect_refused(file, "fc1.weight", "is no name of a record", "input, target, loss");
  for (const char* name : {"output.fc7", "output.fc2.activation", "output."}) {
    file = right;
    file.tensors[name] = loss;
    expect_refused(file, name, "is no layer", "output.LAYER or output.LAYER.OPERATION");
  }
  file = right;
  file.tensors["gradient.fc7.weight"] = loss;
  expect_refused(file, "gradient.fc7.weight", "is of no parameter", "one of: fc1.weight, fc1.bias");
  file = right;
  file.tensors["gradient.fc1.bias"] = loss;
  expect_refused(file, "gradient.fc1.bias", "is [1]", "[5]");
  file = right;
  file.tensors["output.fc2"].dims = {3, 8};
  expect_refused(file, "output.fc2", "is [3, 8]", "[8, 3]");
  file = right;
  file.tensors["output.fc2"].dtype = RT_INT32;
  expect_refused(file, "output.fc2", "has integers", "floating numbers");
  file = right;
  file.tensors["loss"] = right.tensors.at("output.fc2");
  expect_refused(file, "loss", "is [8, 3]", "one number");
  file = right;
  file.tensors["input"].dims = {6, 8};
  expect_refused(file, "input", "is [6, 8]", "[6, 6]");
  file = right;
  const int32_t label = 3;
  std::memcpy(file.tensors.at("target").bytes.data(), &label, sizeof(label));
  expect_refused(file, "target", "has the number 3.0", "integers from 0 to 2");
  file = right;
  file.tensors.erase("target");
  expect_refused(file, "input, target", "are not both there", "both, or none");
}

TEST_F(VerifyRecord, WeightsAreCompleteAndTheFileIsWhole) {
  TensorFile file = tiny();
  file.tensors.erase("weights.fc1.bias");
  test::ProcessResult r = against(file, {job_});
  EXPECT_EQ(r.exit_code, 5);
  EXPECT_THAT(r.err, HasSubstr("missing: fc1.bias [5]"));
  r = against(file, {job_, "--steps", "2"});
  EXPECT_EQ(r.exit_code, 5);
  EXPECT_THAT(r.err, HasSubstr("one step of another framework"));
  const std::filesystem::path path = folder_.path() / "theirs.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 5);
  EXPECT_EQ(run({"verify", job_, "--against", "theirs.safetensors"}).exit_code, 5);
  r = against(tiny(), {job_, "--set", "training.mixed_precision=f16"});
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_THAT(r.err, HasSubstr("without loss scaling"));
}

}  // namespace
}  // namespace runtime::cli
