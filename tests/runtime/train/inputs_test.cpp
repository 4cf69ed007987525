// Models that read named inputs of their samples, and samples that have weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "runtime/error.h"
#include "runtime/exec/encode.h"
#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A folder of files for one test.
class Files {
 public:
  Files() { std::filesystem::create_directories(folder_); }
  ~Files() { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name) << content;
    return (folder_ / name).string();
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("inputs_" + std::to_string(::getpid()));
};

class InputsOfModels : public testing::Test {
 protected:
  // Twelve samples of four columns, a weight and a class, which is there twice.
  std::string table() const {
    std::string text = "a,b,c,d,kind,weight,again,y\n";
    for (int i = 0; i < 12; ++i) {
      for (const double step : {0.3, 0.7, 1.1, 1.9})
        text += std::to_string(std::sin(i * step)) + ",";
      text += std::to_string(i % 5) + "," + std::to_string(i % 3) + "," + std::to_string(i % 2) +
              "," + std::to_string(i % 2) + "\n";
    }
    return files_.write("table.csv", text);
  }
  std::string training(const std::string& more = "") const {
    return "[training]\nglobal_batch_size = 4\ndtype = \"float64\"\n[optimizer]\nlr = "
           "0.2\n[dataset]\n"
           "format = \"csv\"\npath = \"" +
           table() + "\"\nprefetch = 0\ntarget = \"y\"\n" + more;
  }
  // Throws what the trainer throws.
  static std::string refusal(const std::string& toml) {
    try {
      Job job(toml, "reference");
    } catch (const ConfigurationError& error) {
      return error.what();
    }
    return "taken";
  }
  // The outputs of the first batch, by evaluation.
  static Numbers outputs(Job& job) {
    data::LoaderOptions options = validation_loader_options(job.config);
    data::Loader loader(job.data.train, options);
    return job.trainer->outputs(loader.next());
  }

  const Files files_;
};

constexpr const char* kBehind =
    R"({ type = "linear", features = 5, activation = "tanh" }, { type = "linear", features = 2 } ]
)";

TEST_F(InputsOfModels, ComputeWhatTheSameFeaturesCompute) {
  Job one(std::string("[model]\ninput = [4]\nlayers = [ ") + kBehind +
              training("features = [\"c\", \"d\", \"a\", \"b\"]\n"),
          "reference");
  Job two(std::string("[model]\ninput = [2]\nlayers = [ { type = \"join\", by = \"concat\", layers "
                      "= [ { type = "
                      "\"input\", input = \"more\" } ] }, ") +
              kBehind +
              training("features = [\"a\", \"b\"]\ninput = [ { name = \"more\", columns = [\"c\", "
                       "\"d\"] } ]\n"),
          "reference");
  const Numbers losses = one.step(9);
  EXPECT_EQ(two.step(9), losses);
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_EQ(outputs(two), outputs(one));
}

TEST_F(InputsOfModels, OfIntegersAreRowsOfATable) {
  const std::string layers =
      "[model]\ninput = [2]\nlayers = [ { type = \"join\", prefix = false, by = \"concat\", layers "
      "= [ { type = "
      "\"input\", input = "
      "\"kind\", shape = [1], values = \"integers\" }, { type = \"embedding\", name = \"table\", "
      "vocabulary = ROWS, "
      "features = 3 }, { type = \"flatten\" } ] }, ";
  const std::string data = training(
      "features = [\"a\", \"b\"]\ninput = [ { name = \"kind\", columns = [\"kind\"], type = "
      "\"int32\" } ]\n");
  const auto with = [&](const std::string& rows) {
    std::string toml = layers + kBehind + data;
    return toml.replace(toml.find("ROWS"), 4, rows);
  };
  Job job(with("5"), "reference");
  const Numbers before = numbers(job.trainer->weights().tensors.at("table.weight"));
  const Numbers losses = job.step(12);
  EXPECT_LT(losses.back(), losses.front());
  const Numbers after = numbers(job.trainer->weights().tensors.at("table.weight"));
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NE(before[i], after[i]) << "row " << i / 3;
  EXPECT_THAT(refusal(with("4")),
              AllOf(HasSubstr("'table' has a table of 4 rows"), HasSubstr("the numbers 0 to 4")));
}

TEST_F(InputsOfModels, ThatAreNotThereAreRefused) {
  const auto model = [&](const std::string& input) {
    return "[model]\ninput = [2]\nlayers = [ { type = \"join\", by = \"concat\", layers = [ { type "
           "= \"input\", " +
           input + " } ] }, " + kBehind;
  };
  const std::string data = training(
      "features = [\"a\", \"b\"]\ninput = [ { name = \"more\", columns = [\"c\", \"d\"] } ]\n");
  EXPECT_THAT(refusal(model("input = \"other\"") + data),
              AllOf(HasSubstr("the model reads the input \"other\""), HasSubstr("only more")));
  EXPECT_THAT(refusal(model("input = \"more\", shape = [3]") + data),
              AllOf(HasSubstr("as [3] of numbers a sample"), HasSubstr("[2] of numbers")));
  const std::string twice =
      "[model]\ninput = [2]\nlayers = [ { type = \"join\", by = \"concat\", layers = [ { type = "
      "\"input\", input = "
      "\"more\" } ], other = [ { type = \"input\", input = \"more\", shape = [3] } ] }, ";
  EXPECT_THAT(
      refusal(twice + kBehind + data),
      AllOf(HasSubstr("layer 'join1.other.input1': reads the input \"more\" as ["),
            HasSubstr(", 3] of numbers, a layer before it as ["), HasSubstr(", 2] of numbers")));
  EXPECT_THAT(refusal(model("input = \"more\", values = \"integers\"") + data),
              AllOf(HasSubstr("layer 'join1': computes with numbers"),
                    HasSubstr("look them up in an embedding")));
  EXPECT_THAT(
      refusal(model("input = \"more\", values = \"integers\" }, { type = \"embedding\", vocabulary "
                    "= 3, features = 2 }, { type = \"flatten\"") +
              data),
      HasSubstr("as [2] of integers a sample, the data set has [2] of numbers"));
  EXPECT_THAT(refusal(model("input = \"more\"") + training("features = [\"a\", \"b\"]\n")),
              AllOf(HasSubstr("no named inputs"), HasSubstr("[[dataset.input]]")));
}

// A sample of the weight 2 counts as if it were there twice, one of the weight 0 as if it were not.
TEST_F(InputsOfModels, WeightsCountAsRepeatedSamples) {
  const std::string model = std::string("[model]\ninput = [4]\nlayers = [ ") + kBehind;
  const std::string features = "features = [\"a\", \"b\", \"c\", \"d\"]\nshuffle = false\n";
  Job weighted(
      model + training(features + "input = [ { name = \"w\", columns = [\"weight\"] } ]\n"),
      "reference", {{"training.sample_weights", "w"}});
  Job repeated(model + training(features), "reference");
  data::Loader given(weighted.data.train, train_loader_options(weighted.config));
  data::Loader plain(repeated.data.train, train_loader_options(repeated.config));
  data::Batch batch = plain.next();  // the weights of its samples are 0, 1, 2, 0
  const auto copy = [&](size_t from, size_t to) {
    std::copy_n(batch.features.begin() + static_cast<int64_t>(4 * from), 4,
                batch.features.begin() + static_cast<int64_t>(4 * to));
    batch.labels[to] = batch.labels[from];
  };
  copy(2, 3);
  batch.positions[0] = -1;  // padding has the weight 0
  batch.global_valid = batch.valid = 3;
  repeated.trainer->step(batch, 0.2);
  weighted.trainer->step(given.next(), 0.2);
  EXPECT_NEAR(weighted.losses()[0], repeated.losses()[0], 1e-14);
  const data::TensorFile ours = weighted.trainer->weights(), theirs = repeated.trainer->weights();
  for (const auto& [name, tensor] : theirs.tensors) {
    const Numbers a = numbers(ours.tensors.at(name)), b = numbers(tensor);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-14) << name;
  }
}

TEST_F(InputsOfModels, WeightsAreOfRegressionsAndMetrics) {
  const std::string toml =
      std::string("[model]\ninput = [3]\nlayers = [ { type = \"linear\", features = 1 } ]\n") +
      training(
          "features = [\"a\", \"b\", \"c\"]\ntask = \"regression\"\ninput = [ { name = \"w\", "
          "columns = [\"weight\"] } ]\n");
  for (const char* loss : {"mean_squared_error", "mean_absolute_error"}) {
    std::string text = toml;
    Job job(text.replace(text.find("\"y\""), 3, "\"d\""), "reference",
            {{"training.sample_weights", "w"},
             {"training.loss", loss},
             {"validation.metrics", "[\"mae\", \"mse\"]"}});
    data::Loader loader(job.data.train, validation_loader_options(job.config));
    const Evaluation e = job.trainer->evaluate(loader);
    const Numbers outputs = this->outputs(job);
    double loss_sum = 0, weights = 0;
    for (int i = 0; i < 4; ++i) {  // the first batch; the others are alike in form
      float target = 0;
      job.data.train->read_targets(i, &target);
      const double difference = outputs[static_cast<size_t>(i)] - target;
      loss_sum += (i % 3) * std::pow(std::abs(difference), loss[5] == 's' ? 2 : 1);
      weights += i % 3;
    }
    data::LoaderOptions first = validation_loader_options(job.config);
    data::Loader again(job.data.train, first);
    const auto losses = [&] {
      job.trainer->step(again.next(), 0);
      return job.losses()[0];
    };
    EXPECT_NEAR(losses(), loss_sum / weights, 1e-12) << loss;
    EXPECT_TRUE(std::isfinite(e.loss));
  }
}

// ---- a second label

std::string with_head(const std::string& keys) {
  return "[model]\ninput = [2]\nlayers = [ { type = \"linear\", features = 5, activation = "
         "\"tanh\" "
         "}, { type = \"linear\", features = 2 }, { type = \"auxiliary_head\", " +
         keys + " } ]\n";
}

constexpr const char* kSecond = R"(features = ["c", "d"]
input = [
  { name = "second", columns = ["again"], type = "int32" },
  { name = "kind", columns = ["kind"], type = "int32" },
  { name = "numbers", columns = ["a", "b"] },
]
)";

// A head that compares the output with the same labels again is a larger learning rate.
TEST_F(InputsOfModels, AnAuxiliaryHeadAddsItsLossInTraining) {
  const std::string branch =
      "layers = [ { type = \"flatten\" } ], target = \"second\", loss_weight = 0.5";
  Job with(with_head(branch) + training(kSecond), "reference", {{"optimizer.lr", "0.2"}});
  Job plain(std::string("[model]\ninput = [2]\nlayers = [ ") + kBehind + training(kSecond),
            "reference", {{"optimizer.lr", "0.3"}});
  const Numbers losses = with.step(7), alone = plain.step(7);
  for (size_t i = 0; i < 7; ++i) EXPECT_NEAR(losses[i], 1.5 * alone[i], 1e-12);
  const Numbers a = outputs(with), b = outputs(plain);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12);
  const auto validation = [](Job& job) {
    data::Loader loader(job.data.train, validation_loader_options(job.config));
    return job.trainer->evaluate(loader).loss;
  };
  EXPECT_NEAR(validation(with), validation(plain), 1e-12);
}

// A branch whose weights are 0 gives zeros, whose loss is that of the targets alone.
TEST_F(InputsOfModels, AnAuxiliaryHeadMayCompareNumbers) {
  Job plain(std::string("[model]\ninput = [2]\nlayers = [ ") + kBehind + training(kSecond),
            "reference");
  data::Loader loader(plain.data.train, train_loader_options(plain.config));
  const data::Batch batch = loader.next();
  const auto mean = [&](double (*loss)(double)) {
    const auto& targets = batch.inputs[2].floats;
    return std::accumulate(targets.begin(), targets.end(), 0.0,
                           [&](double sum, float t) { return sum + loss(t); }) /
           static_cast<double>(targets.size());
  };
  const std::map<std::string, double> expected = {
      {"mean_squared_error", mean([](double t) { return t * t; })},
      {"mean_absolute_error", mean([](double t) { return std::abs(t); })},
      {"huber", mean([](double t) { return t * t / 2; })}};  // all are below 1
  const double alone = plain.step()[0];
  for (const auto& [loss, of_head] : expected) {
    Job job(with_head("layers = [ { type = \"linear\", features = 2, init = { constant = 0 } } ], "
                      "target = \"numbers\", loss_weight = 0.5, loss = \"" +
                      loss + "\"") +
                training(kSecond),
            "reference");
    EXPECT_NEAR(job.step()[0], alone + 0.5 * of_head, 1e-12) << loss;
  }
}

TEST_F(InputsOfModels, TargetsOfHeadsThatDoNotFitAreRefused) {
  const auto refused = [&](const std::string& features, const std::string& target) {
    return refusal(with_head("layers = [ { type = \"linear\", features = " + features +
                             " } ], target = \"" + target + "\"") +
                   training(kSecond));
  };
  EXPECT_EQ(refused("5", "kind"), "taken");
  EXPECT_THAT(refused("4", "kind"),
              AllOf(HasSubstr("layer 'aux1' gives 4 classes"), HasSubstr("the labels 0 to 4")));
  EXPECT_THAT(refused("4", "numbers"),
              AllOf(HasSubstr("\"numbers\" as [1] of integers"), HasSubstr("[2] of numbers")));
  EXPECT_THAT(refused("4", "other"), HasSubstr("the model reads the input \"other\""));
}

// The label of a sample beside the labels of its tokens has the weight of these together.
TEST_F(InputsOfModels, AHeadMayHaveOneLabelForASampleOfManyLabels) {
  const auto model = [&](const std::string& head) {
    return "[model]\ninput = [6]\nlayers = [ { type = \"embedding\", vocabulary = 256, features = "
           "4 }" +
           head +
           ", { type = \"linear\", features = 256 } ]\n[training]\nglobal_batch_size = 3\n"
           "ignore_label = 1\ndtype = \"float64\"\n[dataset]\nformat = \"text\"\ntokenizer = "
           "\"byte\"\npath = \"" +
           files_.write("text.txt", "a text of more than one window, so that there is data") +
           "\"\n";
  };
  // Its outputs are those of its bias, for the first class and the second.
  const std::string head =
      ", { type = \"auxiliary_head\", target = \"next\", loss_weight = 0.25, layers = [ { type = "
      "\"global_avg_pool\" }, { type = \"linear\", name = \"sentence\", features = 2, init = { "
      "constant = 0 } } ] }";
  const auto loss = [&](const std::string& toml) {
    const config::Config config = test::parse(toml);
    const data::DatasetPair data = open_data(config, "/usr/share/datasets");
    data::SampleSpec spec = data.train->spec();
    spec.inputs.push_back({"next", {1}, true, 0, 1});
    const auto programs =
        std::make_shared<StepPrograms>(RankSetup(config, spec, test::open_device("reference"),
                                                 exec::CompileOptions{{.tune = exec::Tune::kOff}}));
    Trainer trainer(programs);
    data::TensorFile weights = trainer.weights();
    const auto bias = weights.tensors.find("aux1.sentence.bias");
    if (bias != weights.tensors.end()) bias->second.bytes = exec::encode({2.0, 0.0}, RT_FLOAT64);
    trainer.set_weights(weights, "memory");
    data::Batch batch = data::zero_batch(spec, 3);
    batch.inputs[0].integers = {0, 1, 1};
    batch.labels[0] = batch.labels[1] = batch.labels[6] = 1;  // without weight
    batch.positions[2] = -1;                                  // padding
    batch.valid = batch.global_valid = 2;
    batch.weight = (4 + 5) / 6.0;
    trainer.step(batch, 0);
    return trainer.next_result(true)->loss;
  };
  const double first = 4, second = 5;  // the weights of the labels of both samples
  const double of_first = std::log(1 + std::exp(-2.0)), of_second = std::log(1 + std::exp(2.0));
  EXPECT_NEAR(loss(model(head)) - loss(model("")),
              0.25 * (first * of_first + second * of_second) / (first + second), 1e-12);
}

// ---- documents

constexpr const char* kDocumentModel = R"([model]
input = [LENGTH]
layers = [
  { type = "embedding", name = "tokens", vocabulary = 256, features = 8 },
  { type = "position_embedding", name = "places", length = 12, positions = "positions" },
  { type = "residual", layers = [ { type = "attention", heads = 2, key_heads = 1, causal = true, documents = "documents", query = [
      { type = "linear", features = 8 } ], key = [
      { type = "linear", features = 4 } ], value = [
      { type = "linear", features = 4 } ] }, { type = "linear", features = 8 } ] },
  { type = "linear", features = 256 },
]
[training]
global_batch_size = 1
dtype = "float64"
[dataset]
format = "text"
tokenizer = "byte"
separator = "."
shuffle = false
prefetch = 0
path = ")";

std::string document_model(const std::string& path, int length) {
  std::string toml = kDocumentModel;
  return toml.replace(toml.find("LENGTH"), 6, std::to_string(length)) + path + "\"\n";
}

// What the tokens of a document give depends on nothing before it in the window, and is what the
// document alone gives.
TEST_F(InputsOfModels, DocumentsOfAWindowAreComputedAsIfAlone) {
  Job first(document_model(files_.write("1.txt", "abcd.efghijkl"), 12), "reference");
  Job second(document_model(files_.write("2.txt", "zyxw.efghijkl"), 12), "reference");
  Job alone(document_model(files_.write("3.txt", "efghijkl"), 7), "reference");
  const Numbers a = outputs(first), b = outputs(second), c = outputs(alone);
  EXPECT_NE(Numbers(a.begin(), a.begin() + 256), Numbers(b.begin(), b.begin() + 256));
  const Numbers tail(a.begin() + 5 * 256, a.end());
  EXPECT_EQ(tail, Numbers(b.begin() + 5 * 256, b.end()));
  for (size_t i = 0; i < tail.size(); ++i) ASSERT_NEAR(tail[i], c[i], 1e-12) << i;
}

TEST_F(InputsOfModels, PaddingOfSentencesChangesNothing) {
  const std::string texts = files_.write("texts.csv", "text,y\nab,0\nabcde,1\nb,1\n");
  const auto outputs_of = [&](int length) {
    std::string toml = R"([model]
input = [LENGTH]
layers = [
  { type = "embedding", name = "tokens", vocabulary = 256, features = 8 },
  { type = "join", by = "add", layers = [ { type = "input", input = "segments", values = "integers" },
      { type = "embedding", name = "kinds", vocabulary = 2, features = 8 } ] },
  { type = "position_embedding", name = "places", length = 12 },
  { type = "residual", layers = [ { type = "linear", features = 24 }, { type = "attention", heads = 2, documents = "documents" },
      { type = "linear", features = 8 } ] },
  { type = "global_avg_pool", documents = "documents" },
  { type = "l2_norm" },
  { type = "linear", features = 2 },
]
[training]
global_batch_size = 3
dtype = "float64"
[dataset]
format = "sentences"
tokenizer = "byte"
texts = ["text"]
target = "y"
shuffle = false
path = ")" + texts + "\"\n";
    Job job(toml.replace(toml.find("LENGTH"), 6, std::to_string(length)), "reference");
    Numbers before = outputs(job);
    const Numbers losses = job.step(5);
    EXPECT_LT(losses.back(), losses.front());
    return before;
  };
  const Numbers a = outputs_of(5), b = outputs_of(12);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12);
}

TEST_F(InputsOfModels, HiddenTokensAreLearned) {
  std::string text;
  for (int i = 0; i < 600; ++i) text += static_cast<char>('a' + i % 6);
  const std::string toml = R"([model]
input = [12]
layers = [
  { type = "embedding", name = "tokens", vocabulary = 256, features = 16 },
  { type = "position_embedding", name = "places" },
  { type = "residual", layers = [ { type = "layer_norm", bias = false }, { type = "linear", features = 48 },
      { type = "attention", heads = 2 }, { type = "linear", features = 16 } ] },
  { type = "linear", features = 256 },
]
[training]
global_batch_size = 16
[optimizer]
name = "adam"
lr = 0.02
[dataset]
format = "text"
tokenizer = "byte"
task = "masked_token"
mask_token = "_"
stride = 1
validation_split = 0.2
path = ")" + files_.write("text.txt", text) +
                           "\"\n";
  Job job(toml, "reference");
  data::Loader validation(job.data.validation, validation_loader_options(job.config));
  const Evaluation before = job.trainer->evaluate(validation);
  job.step(60);
  data::Loader again(job.data.validation, validation_loader_options(job.config));
  const Evaluation after = job.trainer->evaluate(again);
  EXPECT_LT(after.loss, 0.5 * before.loss);
  EXPECT_GT(after.accuracy, before.accuracy);
}

}  // namespace
}  // namespace runtime::train
