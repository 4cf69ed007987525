// Transfer learning: the weights of a model with one head initialise a model with another head.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A small ResNet with torchvision's names; its head has `classes` outputs.
std::string backbone(int classes) {
  return R"([model]
input = [3, 8, 8]
layers = [
  { type = "conv2d", name = "conv1", channels = 8, kernel = 3, padding = 1, bias = false },
  { type = "batch_norm", name = "bn1", activation = "relu" },
  { type = "residual", name = "layer1.0", activation = "relu", layers = [
    { type = "conv2d", name = "conv1", channels = 8, kernel = 3, padding = 1, bias = false },
    { type = "batch_norm", name = "bn1", activation = "relu" } ] },
  { type = "global_avg_pool" },
  { type = "linear", name = "fc", features = 1000 } ]
[dataset]
name = "synthetic"
samples = 40
classes = )" +
         std::to_string(classes) +
         "\n[training]\nglobal_batch_size = 40\n[optimizer]\nlr = 0.5\nmomentum = 0.9\n";
}

class Transfer : public testing::Test {
 protected:
  Transfer() {
    Job job(backbone(1000), "reference");
    job.step(2);
    file_ = job.trainer->weights();
    file_.tensors["bn1.num_batches_tracked"] = {RT_INT64, {}, std::vector<std::byte>(8)};
    write();
  }
  void write() { data::write_safetensors(path_, file_); }

  // A model with ten classes that is initialised from the file.
  Job job(const std::vector<config::Override>& more) {
    std::vector<config::Override> overrides = {{"model.outputs", "10"}, {"model.init_from", path_}};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return Job(backbone(10), "reference", overrides);
  }

  test::TemporaryFolder folder_;
  const std::string path_ = (folder_.path() / "imagenet.safetensors").string();
  data::TensorFile file_;
};

TEST_F(Transfer, AFrozenBackboneStaysAndTheNewHeadLearns) {
  Job frozen = job({{"model.init_except", "[\"fc.*\"]"},
                    {"model.freeze", "[\"conv1.*\", \"bn1.*\", \"layer1.*\"]"}});
  const data::TensorFile before = frozen.trainer->weights();
  EXPECT_EQ(before.tensors.at("fc.weight").dims, (graph::Dims{10, 8}));
  EXPECT_EQ(before.tensors.at("layer1.0.bn1.running_var").bytes,
            file_.tensors.at("layer1.0.bn1.running_var").bytes);
  const Numbers losses = frozen.step(30);
  EXPECT_LT(losses.back(), 0.8 * losses.front());
  const data::TensorFile after = frozen.trainer->weights();
  for (const char* name : {"conv1.weight", "bn1.weight", "bn1.bias", "layer1.0.conv1.weight",
                           "layer1.0.bn1.weight", "layer1.0.bn1.bias"}) {
    EXPECT_EQ(before.tensors.at(name).bytes, file_.tensors.at(name).bytes) << name;
    EXPECT_EQ(after.tensors.at(name).bytes, file_.tensors.at(name).bytes) << name;
  }
  for (const char* name : {"fc.weight", "fc.bias"})
    EXPECT_NE(after.tensors.at(name).bytes, before.tensors.at(name).bytes) << name;
}

// Parameters that are left out get the initial values that they have without a file.
TEST_F(Transfer, WhatIsLeftOutHasItsInitialValues) {
  Job fresh(backbone(10), "reference", {{"model.outputs", "10"}});
  Job begun = job({{"model.init_except", "[\"fc.*\", \"bn1.weight\"]"}});
  const data::TensorFile a = fresh.trainer->weights(), b = begun.trainer->weights();
  for (const char* name : {"fc.weight", "fc.bias", "bn1.weight"})
    EXPECT_EQ(a.tensors.at(name).bytes, b.tensors.at(name).bytes) << name;
  EXPECT_NE(a.tensors.at("bn1.bias").bytes, b.tensors.at("bn1.bias").bytes);
}

TEST_F(Transfer, AnotherHeadNeedsToBeNamed) {
  EXPECT_THAT(test::message_of<DataError>([&] { job({}); }),
              AllOf(HasSubstr("fc.weight is [1000, 8], the model has [10, 8]"),
                    HasSubstr("model.init_except = [\"fc.*\"]")));
}

TEST_F(Transfer, EntriesOfTheFileCanBeLeftOut) {
  file_.tensors["aux.fc.weight"] = file_.tensors.at("fc.bias");
  // GPT-2's files contain a causal mask.
  file_.tensors["h.0.attn.bias"] = {RT_FLOAT32, {1, 1, 1, 1}, std::vector<std::byte>(4)};
  write();
  EXPECT_THAT(
      test::message_of<DataError>([&] {
        job({{"model.init_except", "[\"fc.*\"]"}});
      }),
      AllOf(HasSubstr("not in the model: aux.fc.weight"), testing::Not(HasSubstr("attn.bias"))));
  EXPECT_NO_THROW(job({{"model.init_except", "[\"fc.*\", \"aux.*\"]"}}));
}

// As after tokens were added to a vocabulary.
TEST_F(Transfer, NewRowsBeginAsTheMeanOfTheOthers) {
  const auto larger = [&](const std::string& patterns) {
    return Job(
        backbone(1002), "reference",
        {{"model.outputs", "1002"}, {"model.init_from", path_}, {"model.init_append", patterns}});
  };
  Job begun = larger("[\"fc.*\"]");
  const data::TensorFile after = begun.trainer->weights();
  const Numbers old = numbers(file_.tensors.at("fc.weight")),
                now = numbers(after.tensors.at("fc.weight"));
  ASSERT_EQ(now.size(), 1002u * 8);
  EXPECT_EQ(Numbers(now.begin(), now.begin() + 8000), old);
  for (size_t column = 0; column < 8; ++column) {
    double mean = 0;
    for (size_t row = 0; row < 1000; ++row) mean += old[8 * row + column] / 1000;
    EXPECT_FLOAT_EQ(now[8000 + column], mean);
    EXPECT_FLOAT_EQ(now[8008 + column], mean);
  }
  EXPECT_EQ(numbers(after.tensors.at("fc.bias")).size(), 1002u);
  EXPECT_THAT(test::message_of<DataError>([&] { larger("[\"fc.weight\"]"); }),
              HasSubstr("fc.bias is [1000], the model has [1002]"));
  EXPECT_THAT(test::message_of<DataError>([&] { larger("[\"fc.*\", \"conv1.*\"]"), job({}); }),
              HasSubstr("fc.weight is [1000, 8], the model has [10, 8]"))
      << "no table becomes smaller";
  EXPECT_THAT(test::message_of<ConfigurationError>([&] { larger("[\"head.*\"]"); }),
              HasSubstr("model.init_append: 'head.*' matches no parameter"));
}

TEST_F(Transfer, APatternThatMatchesNothing) {
  EXPECT_THAT(test::message_of<ConfigurationError>([&] {
                job({{"model.init_except", "[\"fc.*\", \"head.*\"]"}});
              }),
              AllOf(HasSubstr("'head.*' matches no parameter"), HasSubstr("imagenet.safetensors")));
}

}  // namespace
}  // namespace runtime::train
