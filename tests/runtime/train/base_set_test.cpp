// A device with nothing but the base set of plugins/operations.md trains every kind of model as a
// device with all operations does: in float64 their losses agree to rounding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr int kStepsOfBaseSet = 10;
constexpr double kBaseSetTolerance = 1e-9;

const std::string kResNet = R"(
[model]
input = [3, 16, 16]
layers = [
  { type = "conv2d", channels = 8, kernel = 3, padding = 1, bias = false },
  { type = "batch_norm", activation = "relu" },
  { type = "max_pool2d", kernel = 3, stride = 2, padding = 1 },
  { type = "residual", activation = "relu", layers = [
      { type = "conv2d", channels = 16, kernel = 3, stride = 2, padding = 1, groups = 4 },
      { type = "batch_norm", activation = "relu" },
      { type = "conv2d", channels = 16, kernel = 3, padding = 1, bias = false },
      { type = "batch_norm" } ], shortcut = [
      { type = "conv2d", channels = 16, kernel = 1, stride = 2, bias = false }, { type = "batch_norm" } ] },
  { type = "avg_pool2d", kernel = 2 },
  { type = "global_avg_pool" },
  { type = "linear", features = 10 },
]
[dataset]
name = "synthetic"
samples = 64
classes = 10
[training]
global_batch_size = 8
[optimizer]
lr = 0.01
momentum = 0.9
nesterov = true
weight_decay = 0.01
)";

const std::string kGpt = R"(
[model]
preset = "gpt_char_small"
dropout = 0.1
[dataset]
name = "synthetic"
samples = 16
classes = 65
task = "next_token"
[training]
global_batch_size = 2
max_norm = 0.5
[optimizer]
name = "adamw"
lr = 0.001
weight_decay = 0.1
)";

class BaseSet : public testing::TestWithParam<std::pair<const char*, std::string>> {};

TEST_P(BaseSet, TrainsAsADeviceWithAllOperations) {
  const std::vector<config::Override> wide = {{"training.dtype", "float64"}};
  Job all(GetParam().second, "reference", wide);
  Job few(GetParam().second,
          test::open_device("simulated", {{"base_set", "true"}, {"max_delay_us", "0"}}), wide);
  const Numbers expected = all.step(kStepsOfBaseSet), actual = few.step(kStepsOfBaseSet);
  ASSERT_EQ(actual.size(), size_t{kStepsOfBaseSet});
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], kBaseSetTolerance * expected[i]) << "step " << i + 1;
}

INSTANTIATE_TEST_SUITE_P(Models, BaseSet,
                         testing::Values(std::pair("Mlp", kMlp), std::pair("LeNet", kLeNet),
                                         std::pair("ResNet", kResNet), std::pair("Gpt", kGpt)),
                         [](const auto& info) { return info.param.first; });

TEST(BaseSetNotes, SayWhatIsComposed) {
  Job job(kGpt, test::open_device("simulated", {{"base_set", "true"}}));
  job.step(1);
  EXPECT_THAT(job.programs->notes(),
              Contains(HasSubstr("attention is composed of other operations: simulated:0 refuses "
                                 "it (attention is refused by the option 'base_set')")));
}

}  // namespace
}  // namespace runtime::train
