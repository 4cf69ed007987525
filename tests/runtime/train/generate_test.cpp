// Checks sampling, and that the cache of keys and values changes nothing.
#include "runtime/train/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "runtime/error.h"
#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

using testing::ElementsAre;

TEST(Sampling, TemperatureZeroTakesTheFirstLargest) {
  const Numbers logits = {0, 3, 1, 3};
  EXPECT_EQ(sample_token(logits, {.temperature = 0}, 0), 1);
  EXPECT_EQ(sample_token(logits, {.temperature = 0.5, .top_k = 1}, 7), 1);
}

TEST(Sampling, DrawsByTheSoftmaxOfTheMostLikely) {
  const Numbers logits = {std::log(1.0), std::log(4.0), std::log(3.0), std::log(2.0)};
  std::vector<int> counts(4), of_two(4), cold(4);
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    ++counts[sample_token(logits, {.temperature = 1, .top_k = 0, .seed = 1}, i)];
    ++of_two[sample_token(logits, {.temperature = 1, .top_k = 2, .seed = 1}, i)];
    ++cold[sample_token(logits, {.temperature = 0.5, .top_k = 0, .seed = 1}, i)];
  }
  for (int k = 0; k < 4; ++k) {
    const double p = std::exp(logits[k]);
    EXPECT_NEAR(counts[k], kDraws * p / 10, 300);
    EXPECT_NEAR(cold[k], kDraws * p * p / 30, 300);
  }
  EXPECT_NEAR(of_two[1], kDraws * 4.0 / 7, 300);
  EXPECT_NEAR(of_two[2], kDraws * 3.0 / 7, 300);
}

// The fewest whose probabilities, 4, 3, 2 and 1 of 10, sum to at least the share.
TEST(Sampling, DrawsAmongTheFewestThatReachAShare) {
  const Numbers logits = {std::log(1.0), std::log(4.0), std::log(3.0), std::log(2.0)};
  const auto drawn = [&](double share, int64_t top_k) {
    std::set<int32_t> tokens;
    for (int i = 0; i < 2000; ++i)
      tokens.insert(
          sample_token(logits, {.temperature = 1, .top_k = top_k, .top_p = share, .seed = 1}, i));
    return tokens;
  };
  EXPECT_THAT(drawn(1e-6, 0), ElementsAre(1));
  EXPECT_THAT(drawn(0.39, 0), ElementsAre(1));
  EXPECT_THAT(drawn(0.41, 0), ElementsAre(1, 2));
  EXPECT_THAT(drawn(0.89, 0), ElementsAre(1, 2, 3));
  EXPECT_THAT(drawn(0.91, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(drawn(0.56, 2), ElementsAre(1)) << "4 of 7, of those that top_k leaves";
  EXPECT_THAT(drawn(0.58, 2), ElementsAre(1, 2));
}

TEST(Sampling, TheSeedAndThePositionDecide) {
  const Numbers logits(100, 0.0);
  std::vector<int32_t> a, b, c;
  for (int i = 0; i < 20; ++i) {
    a.push_back(sample_token(logits, {.seed = 1}, i));
    b.push_back(sample_token(logits, {.seed = 1}, i));
    c.push_back(sample_token(logits, {.seed = 2}, i));
  }
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_THROW(sample_token(Numbers{1, NAN}, {}, 0), NumericError);
}

// The logits are a row of a table, so the next token depends on the last one only.
const std::string kTokenTable = R"(
[model]
input = [4]
layers = [ { type = "embedding", name = "table", vocabulary = 5, features = 5 } ]
[dataset]
name = "synthetic"
task = "next_token"
samples = 11
classes = 5
[training]
global_batch_size = 1
dtype = "float64"
)";

TEST(Generator, FollowsTheTable) {
  Job job(kTokenTable, "reference");
  data::TensorFile weights = job.trainer->weights();
  auto* table = reinterpret_cast<double*>(weights.tensors.at("table.weight").bytes.data());
  for (int i = 0; i < 25; ++i) table[i] = (i % 5 == (i / 5 * 2 + 1) % 5) ? 1 : 0;  // k -> 2k + 1
  job.trainer->set_weights(weights, "memory");
  for (const std::vector<int32_t>& prompt :
       {std::vector<int32_t>{0}, {3, 2, 4, 4, 1, 2, 0}, {2, 2, 0}}) {
    for (const bool cached : {true, false}) {
      Generator generator(*job.programs, {.temperature = 0}, prompt, cached);
      std::vector<int32_t> written;
      for (int i = 0; i < 9; ++i) written.push_back(generator.next());
      EXPECT_THAT(written, ElementsAre(1, 3, 2, 0, 1, 3, 2, 0, 1));
    }
  }
}

// Every type of layer that can extend a text, with large weights, so that attention decides.
const std::string kTransformer = R"(
[model]
input = [7]
init = { normal = 0.5 }
layers = [
  { type = "embedding", name = "wte", vocabulary = 11, features = 12 },
  { type = "position_embedding", name = "wpe" },
  { type = "block", name = "h", repeat = 2, layers = [
    { type = "residual", layers = [
      { type = "layer_norm" },
      { type = "linear", features = 36 },
      { type = "attention", heads = 3, causal = true },
      { type = "dropout", probability = 0.5 },
      { type = "linear", features = 12, activation = "gelu" } ] },
    { type = "residual", layers = [ { type = "batch_norm", activation = "tanh" } ], shortcut = [
      { type = "linear", features = 12 }, { type = "softmax" } ] },
  ] },
  { type = "linear", features = 11, tie = "wte" },
]
[dataset]
name = "synthetic"
task = "next_token"
samples = 2
classes = 11
[training]
global_batch_size = 1
)";

// Heads of keys that are shared, rotary positions, and a window in one layer only.
std::string llama_block(const std::string& name, int window) {
  const auto projection = [](const std::string& key, int features, int heads) {
    return key + " = [ { type = \"linear\", features = " + std::to_string(features) +
           " }, { type = \"rms_norm\", heads = " + std::to_string(heads) +
           " }, { type = \"rotary\", heads = " + std::to_string(heads) + ", base = 20.0 } ], ";
  };
  return "  { type = \"block\", name = \"" + name +
         "\", layers = [ { type = \"residual\", layers = [ { type = \"rms_norm\" }, { type = "
         "\"attention\", heads = 4, key_heads = 2, causal = true, window = " +
         std::to_string(window) + ", " + projection("query", 16, 4) + projection("key", 8, 2) +
         "value = [ { type = \"linear\", features = 6 } ] }, { type = \"linear\", features = 12 } "
         "] }, "
         "{ type = \"residual\", layers = [ { type = \"gated\", gate = [ { type = \"linear\", "
         "features = "
         "9 } ], up = [ { type = \"linear\", features = 9 } ] }, { type = \"linear\", features = "
         "12 } ] } "
         "] },\n";
}
const std::string kLlama = R"(
[model]
input = [7]
init = { normal = 0.25 }
layers = [
  { type = "embedding", name = "wte", vocabulary = 11, features = 12 },
)" + llama_block("a", 0) + llama_block("b", 3) +
                           R"(  { type = "linear", features = 11 },
]
[dataset]
name = "synthetic"
task = "next_token"
samples = 2
classes = 11
[training]
global_batch_size = 1
)";

std::string preset(const std::string& name, int window) {
  return "model.preset = \"" + name + "\"\nmodel.input = [" + std::to_string(window) +
         "]\ndataset.name = \"synthetic\"\ndataset.task = \"next_token\"\ndataset.samples = 2\n"
         "dataset.classes = 65\ntraining.global_batch_size = 1\n";
}

// Generates with the cache and without, past a full window, and compares tokens and logits.
void expect_same_text(Job& job, const std::vector<int32_t>& prompt, int tokens, double tolerance) {
  const Sampling sampling = {.temperature = 1};
  Generator cached(*job.programs, sampling, prompt), plain(*job.programs, sampling, prompt, false);
  for (int i = 0; i < tokens; ++i) {
    ASSERT_EQ(cached.next(), plain.next()) << "token " << i;
    for (size_t k = 0; k < plain.logits().size(); ++k)
      ASSERT_NEAR(cached.logits()[k], plain.logits()[k], tolerance) << "token " << i;
  }
}

TEST(Generator, TheCacheChangesNothing) {
  Job job(kTransformer, "reference", {{"training.dtype", "float64"}});
  expect_same_text(job, {3}, 12, 1e-12);
  expect_same_text(job, {1, 2, 3, 4, 5}, 4, 1e-12);
  expect_same_text(job, {1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 1e-12);
}

TEST(Generator, TheCacheHoldsSharedKeysAndWindows) {
  Job job(kLlama, "reference", {{"training.dtype", "float64"}});
  expect_same_text(job, {3}, 12, 1e-10);
  expect_same_text(job, {1, 2, 3, 4, 5, 6}, 4, 1e-10);
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the build has no cpu backend";
  Job fast(kLlama, "cpu");
  expect_same_text(fast, {3}, 9, 1e-3);
}

// The device has queues and memory of its own, and composes attention and slices of other
// operations.
TEST(Generator, TheCacheNeedsOnlyTheBaseSet) {
  Job job(kTransformer,
          test::open_device("simulated", {{"base_set", "true"}, {"max_delay_us", "0"}}),
          {{"training.dtype", "float64"}});
  expect_same_text(job, {3}, 10, 1e-12);
}

TEST(Generator, TheCacheReadsWeightsThatHaveChanged) {
  Job job(kTransformer, "reference", {{"training.dtype", "float64"}});
  expect_same_text(job, {3}, 4, 1e-12);
  job.step(2);
  expect_same_text(job, {3}, 4, 1e-12);
}

TEST(Generator, TheCacheHoldsSixteenBitActivations) {
  Job job(kTransformer, "reference", {{"training.mixed_precision", "bf16"}});
  Generator cached(*job.programs, {}, {3, 1}), plain(*job.programs, {}, {3, 1}, false);
  for (int i = 0; i < 2; ++i) {
    cached.next();
    plain.next();
  }
  for (size_t k = 0; k < plain.logits().size(); ++k)
    EXPECT_NEAR(cached.logits()[k], plain.logits()[k], 0.2);
}

TEST(Generator, BackendsWriteTheTextOfACharacterModel) {
  Job small(preset("gpt_char_small", 8), "reference");
  expect_same_text(small, {7, 40, 2}, 8, 1e-5);
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the build has no cpu backend";
  Job job(preset("gpt_char", 24), "cpu");
  expect_same_text(job, {7, 40, 2}, 28, 1e-5);
}

}  // namespace
}  // namespace runtime::train
