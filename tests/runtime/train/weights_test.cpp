// Checks initial values, PyTorch's layouts, and weights files that do not fit.
#include "runtime/train/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "runtime/config/inits.h"
#include "runtime/error.h"
#include "runtime/exec/encode.h"
#include "tests/runtime/support/names.h"
#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

using model::Parameter;
using testing::AllOf;
using testing::HasSubstr;

// ---- numbers that are not finite

// A tensor of 100 numbers, one of which is `value`.
data::TensorFile with(rt_dtype dtype, double value, size_t at) {
  std::vector<double> numbers(100, 1.5);
  numbers[at] = value;
  data::TensorFile file;
  file.tensors["some"] = {dtype, {100}, exec::encode(numbers, dtype)};
  return file;
}

TEST(NotFinite, IsFoundInEveryTypeAndPlace) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::map<rt_dtype, double> largest = {{RT_FLOAT64, std::numeric_limits<double>::max()},
                                              {RT_FLOAT32, std::numeric_limits<float>::max()},
                                              {RT_FLOAT16, 65504},
                                              {RT_BFLOAT16, 3.3895313892515355e38}};
  for (const auto& [dtype, most] : largest) {
    for (const size_t at : {0, 1, 37, 98, 99}) {
      for (const double bad : {kInfinity, -kInfinity, std::nan("")})
        EXPECT_EQ(first_not_finite(with(dtype, bad, at)), "some") << dtype << " " << bad;
      for (const double good : {0.0, -0.0, most, -most, most / 3e4})
        EXPECT_EQ(first_not_finite(with(dtype, good, at)), "") << dtype << " " << good;
    }
  }
}

TEST(NotFinite, IntegersAreNever) {
  data::TensorFile file;
  file.tensors["ids"] = {RT_INT32, {2}, std::vector<std::byte>(8, std::byte{0x7f})};
  EXPECT_EQ(first_not_finite(file), "");
}

// ---- initial values

Parameter parameter(const std::string& kind, double value = 0) {
  Parameter p;
  p.name = "layer.weight";
  p.init = {kind, value};
  p.fan_in = 300;
  p.fan_out = 100;
  return p;
}

// The first `count` initial values of a parameter that has its canonical order in the file.
Numbers initial_values(Parameter p, int64_t count, uint64_t seed) {
  p.view = {count};
  p.permutation = {0};
  std::vector<std::byte> bytes(7);
  draw_initial_values(p, seed, RT_FLOAT64, 2, bytes);
  Numbers numbers(static_cast<size_t>(count));
  EXPECT_EQ(bytes.size(), numbers.size() * sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

struct Statistics {
  double mean = 0, deviation = 0, kurtosis = 0, lowest = 0, highest = 0;
};

constexpr int64_t kCount = 200000;

Statistics statistics(const Numbers& x) {
  Statistics s;
  for (double v : x) s.mean += v / static_cast<double>(x.size());
  double second = 0, fourth = 0;
  for (double v : x) {
    second += std::pow(v - s.mean, 2) / static_cast<double>(x.size());
    fourth += std::pow(v - s.mean, 4) / static_cast<double>(x.size());
    s.lowest = std::min(s.lowest, v);
    s.highest = std::max(s.highest, v);
  }
  s.deviation = std::sqrt(second);
  s.kurtosis = fourth / (second * second);
  return s;
}

// Uniform in (-bound, bound): the standard deviation is bound / sqrt(3), the kurtosis 9/5.
void expect_uniform(const Parameter& p, double bound) {
  const Statistics s = statistics(initial_values(p, kCount, 1));
  EXPECT_NEAR(s.mean, 0, 0.01 * bound);
  EXPECT_NEAR(s.deviation, bound / std::sqrt(3), 0.01 * bound);
  EXPECT_NEAR(s.kurtosis, 1.8, 0.02);
  EXPECT_LT(s.highest, bound);
  EXPECT_GT(s.lowest, -bound);
  EXPECT_GT(s.highest, 0.999 * bound);
}

void expect_normal(const Parameter& p, double deviation) {
  const Statistics s = statistics(initial_values(p, kCount, 1));
  EXPECT_NEAR(s.mean, 0, 0.02 * deviation);
  EXPECT_NEAR(s.deviation, deviation, 0.01 * deviation);
  EXPECT_NEAR(s.kurtosis, 3, 0.1);
}

// An init has two halves: what the configuration knows of it, and what draws its values.
TEST(InitialValues, EachNameOfTheConfigurationIsWritten) {
  test::expect_both_halves(names_of_rows(config::inits()), "runtime/config/inits.cpp",
                           written_inits(), "runtime/train/weights.cpp");
}

TEST(InitialValues, HaveTheStatisticsOfTheirKind) {
  expect_uniform(parameter("default"), 1 / std::sqrt(300.0));
  expect_uniform(parameter("uniform", 0.3), 0.3);
  expect_uniform(parameter("xavier_uniform"), std::sqrt(6.0 / 400));
  expect_uniform(parameter("kaiming_uniform"), std::sqrt(6.0 / 300));
  expect_normal(parameter("normal", 0.01), 0.01);
  expect_normal(parameter("xavier_normal"), std::sqrt(2.0 / 400));
  expect_normal(parameter("kaiming_normal"), std::sqrt(2.0 / 300));
  EXPECT_EQ(initial_values(parameter("constant", 0.5), 3, 1), (Numbers{0.5, 0.5, 0.5}));
}

TEST(InitialValues, DependOnSeedAndNameOnly) {
  const Parameter p = parameter("default");
  const Numbers x = initial_values(p, 100, 1);
  EXPECT_EQ(initial_values(p, 100, 1), x);
  EXPECT_NE(initial_values(p, 100, 2), x);
  Parameter other = p;
  other.name = "layer.weights";
  EXPECT_NE(initial_values(other, 100, 1), x);
  const Numbers longer = initial_values(p, 200, 1);
  EXPECT_TRUE(std::equal(x.begin(), x.end(), longer.begin()));
}

// The place of a number in the file decides, so that a permutation draws no other numbers; the
// pieces that threads draw begin at any element.
TEST(InitialValues, OfAPermutedParameterAreThoseOfItsFile) {
  Parameter p = parameter("uniform", 1);
  p.view = {300, 5, 40};
  p.permutation = {2, 0, 1};
  std::vector<std::byte> bytes;
  draw_initial_values(p, 1, RT_FLOAT64, 3, bytes);
  const Numbers file = initial_values(p, 300 * 5 * 40, 1);
  bytes = to_file_order(p, bytes, sizeof(double));
  ASSERT_EQ(bytes.size(), file.size() * sizeof(double));
  EXPECT_EQ(std::memcmp(bytes.data(), file.data(), bytes.size()), 0);
}

TEST(InitialValues, ABiasFollowsItsWeightsFanIn) {
  const Job job(
      "model.preset = \"lenet\"\nmodel.init = \"default\"\ndataset.name = \"synthetic\"\n"
      "dataset.samples = 8\ndataset.classes = 10\ntraining.global_batch_size = 8\n",
      "reference");
  const data::TensorFile weights = job.trainer->weights();
  const Statistics s = statistics(numbers(weights.tensors.at("fc1.bias")));
  EXPECT_NEAR(s.deviation, 1 / std::sqrt(3 * 800.0), 0.2 / std::sqrt(3 * 800.0));
  EXPECT_LT(s.highest, 1 / std::sqrt(800.0));
}

// ---- layouts

std::vector<std::byte> bytes_of(const std::vector<float>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * 4);
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

// A convolution is [O=2, H=1, W=2, I=3] in canonical layout, and [O, I, H, W] in the file.
TEST(Weights, ConvolutionsHavePyTorchsOrder) {
  Parameter p;
  p.view = {2, 1, 2, 3};
  p.permutation = {0, 3, 1, 2};
  p.file_dims = {2, 3, 1, 2};
  std::vector<float> canonical, file;
  for (int i = 0; i < 12; ++i) canonical.push_back(static_cast<float>(i));
  for (int o = 0; o < 2; ++o) {
    for (int c = 0; c < 3; ++c) {
      for (int w = 0; w < 2; ++w) file.push_back(canonical[(o * 2 + w) * 3 + c]);
    }
  }
  EXPECT_EQ(to_file_order(p, bytes_of(canonical), 4), bytes_of(file));
  EXPECT_EQ(from_file_order(p, bytes_of(file), 4), bytes_of(canonical));
}

// In the file the columns of a linear layer behind a flatten are in the order C,H,W. A model with
// the weights in that order computes the same.
TEST(Weights, TheFirstLinearLayerAfterAnImageIsPermuted) {
  const std::string toml =
      "[model]\ninput = [2, 2, 3]\nlayers = [ { type = \"flatten\" }, { type = \"linear\", "
      "features = 4 } ]\n[dataset]\nname = \"synthetic\"\nsamples = 4\nclasses = 4\n"
      "[training]\nglobal_batch_size = 4\ndtype = \"float64\"\n";
  Job job(toml, "reference");
  const data::Batch& batch = job.loader->next();
  const data::TensorFile weights = job.trainer->weights();
  const Numbers w = numbers(weights.tensors.at("fc1.weight")),
                b = numbers(weights.tensors.at("fc1.bias"));
  const Numbers logits = numbers(job.trainer->gradients(batch).tensors.at("logits"));
  for (int n = 0; n < 4; ++n) {
    for (int o = 0; o < 4; ++o) {
      double sum = b[o];
      for (int c = 0; c < 2; ++c) {
        for (int h = 0; h < 2; ++h) {
          for (int x = 0; x < 3; ++x)
            sum += w[o * 12 + (c * 2 + h) * 3 + x] * batch.features[((n * 2 + h) * 3 + x) * 2 + c];
        }
      }
      EXPECT_NEAR(logits[n * 4 + o], sum, 1e-12);
    }
  }
}

// ---- export and import

TEST(Weights, RoundTripThroughAFile) {
  test::TemporaryFolder folder;
  Job first(kResidual, "reference"), second(kResidual, "reference", {{"debug.seed", "7"}});
  first.step(2);  // statistics change as well
  const std::string path = (folder.path() / "w.safetensors").string();
  data::write_safetensors(path, first.trainer->weights());
  EXPECT_FALSE(same_bits(second.trainer->weights(), first.trainer->weights()));
  second.trainer->set_weights(data::read_safetensors(path), path);
  EXPECT_TRUE(same_bits(second.trainer->weights(), first.trainer->weights()));
  const data::Batch& batch = first.loader->next();
  EXPECT_TRUE(same_bits(second.trainer->gradients(batch), first.trainer->gradients(batch)));
}

TEST(Weights, InitFromReadsAFile) {
  test::TemporaryFolder folder;
  Job first(kTiny, "reference");
  first.step(1);
  const std::string path = (folder.path() / "w.safetensors").string();
  data::write_safetensors(path, first.trainer->weights());
  Job second(kTiny, "reference", {{"model.init_from", "\"" + path + "\""}});
  EXPECT_TRUE(same_bits(second.trainer->weights(), first.trainer->weights()));
}

TEST(Weights, OtherFloatingTypesAreConverted) {
  data::HostTensor half{RT_FLOAT16, {3}, {}};
  for (const unsigned char byte : {0x00, 0x3C, 0x00, 0xC1, 0x01, 0x00})
    half.bytes.push_back(std::byte{byte});
  data::HostTensor as_double{RT_FLOAT64, {3}, converted(half, RT_FLOAT64)};
  EXPECT_EQ(numbers(as_double), (Numbers{1, -2.5, std::ldexp(1.0, -24)}));
  data::HostTensor brain{RT_BFLOAT16, {1}, {std::byte{0x20}, std::byte{0xC0}}};
  data::HostTensor as_float{RT_FLOAT32, {1}, converted(brain, RT_FLOAT32)};
  EXPECT_EQ(numbers(as_float), Numbers{-2.5});
}

TEST(Weights, AFileThatDoesNotFitListsEveryDifference) {
  Job job(kTiny, "reference");
  data::TensorFile file = job.trainer->weights();
  file.tensors["fc9.weight"] = file.tensors.at("fc1.weight");
  file.tensors["bn.num_batches_tracked"] = {RT_INT64, {}, std::vector<std::byte>(8)};
  file.tensors.erase("fc2.bias");
  file.tensors.at("fc1.weight").dims = {6, 5};
  file.tensors.at("fc1.bias").dtype = RT_INT64;
  const data::TensorFile before = job.trainer->weights();
  const std::string message =
      test::message_of<DataError>([&] { job.trainer->set_weights(file, "some.safetensors"); });
  EXPECT_THAT(message, AllOf(HasSubstr("some.safetensors"), HasSubstr("missing: fc2.bias [3]"),
                             HasSubstr("fc1.weight is [6, 5], the model has [5, 6]"),
                             HasSubstr("fc1.bias is not of a floating type"),
                             HasSubstr("not in the model: fc9.weight")));
  EXPECT_EQ(message.find("num_batches_tracked"), std::string::npos);
  EXPECT_TRUE(same_bits(job.trainer->weights(), before)) << "a refused file changes nothing";
}

}  // namespace
}  // namespace runtime::train
