// Checks how many tokens are hidden, what takes their places, and what the choice depends on.
#include "runtime/data/masking.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "runtime/data/loader.h"
#include "runtime/data/open.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using testing::Each;

constexpr std::size_t kTokens = 20000;
constexpr float kToken = 7;

struct Masked {
  std::vector<float> tokens = std::vector<float>(kTokens, kToken);
  std::vector<float> hidden = std::vector<float>(kTokens);
};

Masked mask(const TokenMasking& masking, uint64_t seed = 1, int64_t epoch = 0, int64_t sample = 0) {
  Masked masked;
  mask_tokens(masking, seed, epoch, sample, masked.tokens, masked.hidden.data());
  return masked;
}

// Each count is that of independent draws: within five deviations of its mean.
TEST(Masking, SharesAreThoseOfBert) {
  const TokenMasking masking{0.15, 3, 1000, {}};
  const Masked masked = mask(masking);
  double hidden = 0, masks = 0, same = 0, random = 0;
  for (std::size_t i = 0; i < kTokens; ++i) {
    if (masked.hidden[i] == 0) {
      ASSERT_EQ(masked.tokens[i], kToken);
      continue;
    }
    ASSERT_EQ(masked.hidden[i], 1);
    ++hidden;
    const float token = masked.tokens[i];
    ASSERT_GE(token, 0);
    ASSERT_LT(token, 1000);
    ++(token == 3 ? masks : token == kToken ? same : random);
  }
  const auto expect_share = [](double count, double of, double share) {
    EXPECT_NEAR(count, of * share, 5 * std::sqrt(of * share * (1 - share)));
  };
  expect_share(hidden, kTokens, 0.15);
  expect_share(masks, hidden, 0.8);
  expect_share(same, hidden, 0.1);
  expect_share(random, hidden, 0.1);
}

TEST(Masking, DependsOnSeedEpochAndSample) {
  const TokenMasking masking{0.15, 3, 1000, {}};
  const Masked first = mask(masking);
  EXPECT_EQ(mask(masking).tokens, first.tokens);
  EXPECT_NE(mask(masking, 2).hidden, first.hidden);
  EXPECT_NE(mask(masking, 1, 1).hidden, first.hidden);
  EXPECT_NE(mask(masking, 1, 0, 1).hidden, first.hidden);
}

TEST(Masking, NeverHidesSpecialTokens) {
  TokenMasking masking{1, 3, 1000, std::vector<bool>(1000)};
  masking.kept[static_cast<std::size_t>(kToken)] = true;
  const Masked masked = mask(masking);
  EXPECT_THAT(masked.hidden, Each(0));
  EXPECT_THAT(masked.tokens, Each(kToken));
}

class MaskedText : public testing::Test {
 protected:
  DatasetPair open() {
    DatasetOptions options;
    options.format = "text";
    options.tokenizer = "byte";
    std::string text;
    for (int i = 0; i < 400; ++i) text += static_cast<char>('a' + i * 7 % 26);
    options.path = folder_.write("a.txt", text);
    options.shape = {16};
    options.masked_token = true;
    options.mask_share = 0.3;
    options.mask_token = "_";
    return open_dataset(options);
  }
  const test::TempFolder folder_;
};

TEST_F(MaskedText, LabelsAreTheTokensOfTheWindowItself) {
  const auto data = open().train;
  std::vector<int32_t> labels(16);
  data->read_labels(2, labels.data());
  EXPECT_EQ(std::vector<float>(labels.begin(), labels.end()), test::features_of(*data, 2));
}

// Hidden tokens are those with a weight, in each epoch others, and the same with more workers.
TEST_F(MaskedText, BatchesHideTokensAndWeighThem) {
  const auto data = open().train;
  LoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 3};
  options.label_weights.input = TokenMasking::kInput;
  options.workers = 3;
  LoaderOptions alone = options;
  alone.prefetch = 0;
  Loader loader(data, options), other(data, alone);
  const std::size_t input = *data->spec().find_input(TokenMasking::kInput);
  std::vector<std::vector<float>> of_sample_0;
  for (int i = 0; i < 9; ++i) {
    const Batch &batch = loader.next(), &same = other.next();
    ASSERT_EQ(batch.features, same.features);
    ASSERT_EQ(batch.inputs[input].floats, same.inputs[input].floats);
    double hidden = 0;
    for (std::size_t k = 0; k < batch.labels.size(); ++k) {
      const float weight = batch.inputs[input].floats[k];
      hidden += weight;
      if (weight > 0) continue;
      EXPECT_EQ(batch.features[k], static_cast<float>(batch.labels[k]));
    }
    EXPECT_GT(hidden, 0);
    EXPECT_DOUBLE_EQ(weight_of(batch), hidden / 16);
    for (std::size_t row = 0; row < batch.samples.size(); ++row) {
      const auto at = batch.inputs[input].floats.begin() + static_cast<int64_t>(16 * row);
      if (batch.samples[row] == 0) of_sample_0.emplace_back(at, at + 16);
    }
  }
  ASSERT_EQ(of_sample_0.size(), 3u);
  EXPECT_NE(of_sample_0[0], of_sample_0[1]);
}

TEST_F(MaskedText, ValidationsHideTheSameTokens) {
  const auto data = open().train;
  LoaderOptions options{.batch_size = data->size(), .shuffle = false};
  options.label_weights.input = TokenMasking::kInput;
  options.same_masks = true;
  Loader loader(data, options);
  const auto features = loader.next().features;
  EXPECT_EQ(loader.next().features, features);
}

}  // namespace
}  // namespace runtime::data
