// Language models: labels for each position of a sample.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/error.h"
#include "runtime/train/run/loop.h"
#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The logits are a row of a table, so the next token depends on the last one only. 11 samples of 4
// tokens in batches of 3; the last batch has 2 samples.
const std::string kBigram = R"(
[model]
input = [4]
layers = [ { type = "embedding", name = "table", vocabulary = 5, features = 5 } ]
[dataset]
name = "synthetic"
task = "next_token"
samples = 11
classes = 5
prefetch = 0
[training]
global_batch_size = 3
dtype = "float64"
[optimizer]
lr = 2.0
)";

// The same model in double, as loops.
class Bigram {
 public:
  explicit Bigram(Numbers table) : table_(std::move(table)) {}

  // Returns the mean loss over the tokens of the real samples, before the update.
  double step(const data::Batch& batch, double lr) {
    Numbers gradient(table_.size());
    const double loss =
        visit(batch, [&](const double* row, int32_t token, int32_t label, double w) {
          for (int32_t k = 0; k < 5; ++k)
            gradient[token * 5 + k] += w * (std::exp(row[k] - log_sum(row)) - (k == label ? 1 : 0));
        });
    for (size_t i = 0; i < table_.size(); ++i) table_[i] -= lr * gradient[i];
    return loss;
  }

  Evaluation evaluate(const data::Batch& batch) {
    Evaluation e;
    e.loss = visit(batch, [&](const double* row, int32_t, int32_t label, double w) {
      e.accuracy += w * (std::max_element(row, row + 5) - row == label ? 1 : 0);
    });
    return e;
  }

  Numbers table_;

 private:
  static double log_sum(const double* row) {
    double sum = 0;
    for (int k = 0; k < 5; ++k) sum += std::exp(row[k]);
    return std::log(sum);
  }

  template <class Token>
  double visit(const data::Batch& batch, const Token& token) {
    double loss = 0;
    const double weight = 1.0 / static_cast<double>(batch.global_valid * 4);
    for (int64_t i = 0; i < batch.rows * 4; ++i) {
      if (batch.positions[i / 4] < 0) continue;
      const double* row = table_.data() + static_cast<int64_t>(batch.features[i]) * 5;
      loss += weight * (log_sum(row) - row[batch.labels[i]]);
      token(row, static_cast<int32_t>(batch.features[i]), batch.labels[i], weight);
    }
    return loss;
  }
};

Numbers table_of(Job& job) { return numbers(job.trainer->weights().tensors.at("table.weight")); }

class LastBatches : public testing::TestWithParam<std::vector<config::Override>> {};
INSTANTIATE_TEST_SUITE_P(
    All, LastBatches,
    testing::Values(std::vector<config::Override>{{"dataset.last_batch", "keep"}},
                    std::vector<config::Override>{{"dataset.last_batch", "pad"}},
                    std::vector<config::Override>{{"dataset.last_batch", "drop"}},
                    std::vector<config::Override>{{"training.micro_batch_size", "2"}},
                    std::vector<config::Override>{{"debug.deterministic", "true"}}));

TEST_P(LastBatches, EqualAComputationByHand) {
  Job job(kBigram, "reference", GetParam());
  Bigram bigram(table_of(job));
  Job batches(kBigram, "reference", {GetParam()[0]});
  batches.loader =
      std::make_unique<data::Loader>(batches.data.train, train_loader_options(batches.config));
  data::LoaderOptions own = train_loader_options(job.config, job.trainer->split());
  job.loader = std::make_unique<data::Loader>(job.data.train, own);
  double first = 0, last = 0;
  for (int i = 0; i < 12; ++i) {
    job.trainer->step(job.loader->next(), 2);
    last = job.losses()[0];
    if (i == 0) first = last;
    ASSERT_NEAR(last, bigram.step(batches.loader->next(), 2), 1e-12) << "step " << i;
  }
  EXPECT_LT(last, first);
  const Numbers table = table_of(job);
  for (size_t i = 0; i < table.size(); ++i) EXPECT_NEAR(table[i], bigram.table_[i], 1e-12);
}

// Statistics cover the real samples, each with the sum of the weights of its tokens.
TEST(Language, BatchNormLeavesOutPadding) {
  const config::Override layers = {
      "model.layers",
      "[{ type = \"embedding\", name = \"table\", vocabulary = 5, features = 5 }, "
      "{ type = \"batch_norm\" }]"};
  Job kept(kBigram, "reference", {layers});
  const Numbers expected = kept.step(8);
  const auto weights = kept.trainer->weights();
  for (const std::vector<config::Override>& variant :
       {std::vector<config::Override>{{"dataset.last_batch", "pad"}},
        {{"debug.deterministic", "true"}, {"parallelism.sync_batch_norm", "true"}}}) {
    std::vector<config::Override> overrides = variant;
    overrides.push_back(layers);
    Job job(kBigram, "reference", overrides);
    job.loader = std::make_unique<data::Loader>(
        job.data.train, train_loader_options(job.config, job.trainer->split()));
    const Numbers losses = job.step(8);
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-12) << i;
    for (const auto& [name, tensor] : job.trainer->weights().tensors) {
      const Numbers x = numbers(tensor), y = numbers(weights.tensors.at(name));
      for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-12) << name;
    }
  }
}

TEST(Language, EvaluationIsAMeanOverTokens) {
  Job job(kBigram, "reference");
  Bigram bigram(table_of(job));
  data::Loader loader(job.data.train, validation_loader_options(job.config));
  const Evaluation e = job.trainer->evaluate(loader);
  data::LoaderOptions all = validation_loader_options(job.config);
  all.batch_size = 11;
  data::Loader whole(job.data.train, all);
  const Evaluation expected = bigram.evaluate(whole.next());
  EXPECT_EQ(e.samples, 11);
  EXPECT_NEAR(e.loss, expected.loss, 1e-12);
  EXPECT_NEAR(e.accuracy, expected.accuracy, 1e-12);
}

TEST(Language, CpuEqualsReference) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the cpu backend was not built";
  const std::vector<config::Override> float32 = {{"training.dtype", "float32"}};
  Job cpu(kBigram, "cpu", float32), reference(kBigram, "reference", float32);
  const Numbers a = cpu.step(3), b = reference.step(3);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * b[i]);
}

std::string refused(const std::vector<config::Override>& overrides) {
  return test::message_of<ConfigurationError>([&] { Job(kBigram, "reference", overrides); });
}

TEST(Language, ModelAndDataMustFit) {
  EXPECT_THAT(refused({{"dataset.classes", "6"}}),
              HasSubstr("outputs, the data set 6 classes; set model.outputs = 6, or give"));
  EXPECT_THAT(
      refused({{"model.layers", "[{ type = \"embedding\", vocabulary = 4, features = 5 }]"}}),
      AllOf(HasSubstr("layer 'embedding1' has a vocabulary of 4"),
            HasSubstr("5 different tokens")));
  EXPECT_THAT(refused({{"model.layers",
                        "[{ type = \"embedding\", vocabulary = 5, features = 5 }, "
                        "{ type = \"flatten\" }, { type = \"linear\", features = 5 }]"}}),
              AllOf(HasSubstr("1 prediction a sample, the data set has 4 labels")));
  EXPECT_THAT(refused({{"dataset.task", "classification"}}),
              HasSubstr("4 predictions a sample, the data set has 1 label"));
}

// ---- characters

class Characters : public testing::Test {
 protected:
  Job job(const std::string& text) {
    const std::string path = folder_.write("text.txt", text);
    return Job(
        "[model]\ninput = [2]\nlayers = [{ type = \"embedding\", vocabulary = 4, features = "
        "4 }]\n[dataset]\nformat = \"text\"\npath = \"" +
            path + "\"\n[training]\nglobal_batch_size = 2\n",
        "reference");
  }
  test::TemporaryFolder folder_;
};

TEST_F(Characters, GoWithTheWeights) {
  const data::TensorFile weights = job("hello").trainer->weights();
  EXPECT_EQ(weights.metadata.at("characters"), "ehlo");
  job("olleh").trainer->set_weights(weights, "w.safetensors");
  EXPECT_THAT(test::message_of<DataError>([&] { job("abcab").trainer->set_weights(weights, "w"); }),
              AllOf(HasSubstr("\"ehlo\""), HasSubstr("\"abc\"")));
}

// ---- the loop

class ValidationSteps : public Reporter {
 public:
  void note(const std::string&) override {}
  void step(const Metrics&, int64_t, int64_t) override {}
  void line(const Metrics& m) override {
    if (m.validation_loss) steps.push_back(m.step);
  }
  std::vector<int64_t> steps;
};

TEST(Language, IsEvaluatedEverySoManySteps) {
  Job job(kBigram, "reference",
          {{"dataset.validation_split", "0.2"},  // 8 samples for training, in 3 steps an epoch
           {"training.steps", "8"},
           {"validation.every_steps", "3"}});
  ValidationSteps lines;
  run_training(job.config, job.data, *job.programs, *job.trainer, lines, {});
  EXPECT_THAT(lines.steps, ElementsAre(3, 6, 8)) << "the run ends with one";
  Job other(kBigram, "reference",
            {{"dataset.validation_split", "0.2"},
             {"training.steps", "8"},
             {"validation.every_steps", "4"},
             {"validation.every_epochs", "2"}});
  ValidationSteps both;
  run_training(other.config, other.data, *other.programs, *other.trainer, both, {});
  EXPECT_THAT(both.steps, ElementsAre(4, 6, 8));
}

}  // namespace
}  // namespace runtime::train
