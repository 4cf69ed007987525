// Named inputs of samples from files and columns, weights of samples, and what of them is refused.
#include "runtime/data/inputs.h"

#include <gmock/gmock.h>

#include "runtime/data/fingerprint.h"
#include "runtime/data/loader.h"
#include "runtime/data/open.h"
#include "runtime/error.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Inputs of one type are read into one of these.
std::vector<int32_t> integers_of(const Dataset& dataset, int64_t index, std::size_t input) {
  std::vector<int32_t> out(static_cast<std::size_t>(dataset.spec().inputs[input].numbers()));
  dataset.read_input({&index, 1}, input, {nullptr, out.data()});
  return out;
}
std::vector<float> floats_of(const Dataset& dataset, int64_t index, std::size_t input) {
  std::vector<float> out(static_cast<std::size_t>(dataset.spec().inputs[input].numbers()));
  dataset.read_input({&index, 1}, input, {out.data(), nullptr});
  return out;
}

class Inputs : public testing::Test {
 protected:
  // Five samples: the columns count from 0, 10, 20, 30 and the label is a bit.
  DatasetOptions table() {
    DatasetOptions options;
    options.format = "csv";
    options.path = folder_.write("a.csv",
                                 "a,kind,b,weight,y\n0,10,20,1,0\n1,11,21,0.5,1\n2,12,22,0,0\n"
                                 "3,13,23,2,1\n4,14,24,1,0\n");
    options.target = "y";
    options.inputs = {{"kind", "", "", {"kind"}, true}, {"weight", "", "", {"weight"}}};
    return options;
  }
  DatasetOptions arrays() {
    DatasetOptions options;
    options.format = "npy";
    options.path = file("x.npy", "<f4", "(4, 2)", test::raw<float>({0, 1, 2, 3, 4, 5, 6, 7}));
    options.target_path = file("y.npy", "<i4", "(4,)", test::raw<int32_t>({0, 1, 0, 1}));
    options.inputs = {
        {"place",
         file("p.npy", "<i8", "(4, 3)", test::raw<int64_t>({9, 8, 7, 6, 5, 4, 3, 2, 1, 0, -1, -2})),
         "",
         {},
         true}};
    return options;
  }
  std::string file(const std::string& name, const std::string& type, const std::string& shape,
                   const std::string& bytes) {
    return folder_.write(name, test::npy(test::npy_header(type, shape), bytes));
  }
  static std::string refusal(const DatasetOptions& options) {
    try {
      open_dataset(options);
    } catch (const Error& error) {
      return error.what();
    }
    ADD_FAILURE() << "not refused";
    return "";
  }

  const test::TempFolder folder_;
};

TEST_F(Inputs, OfColumnsAreNoFeatures) {
  const auto data = open_dataset(table()).train;
  EXPECT_THAT(data->spec().shape, ElementsAre(2));
  EXPECT_THAT(test::features_of(*data, 3), ElementsAre(3, 23));
  ASSERT_EQ(data->spec().inputs.size(), 2u);
  EXPECT_EQ(data->spec().inputs[0], (SampleInput{"kind", {1}, true, 10, 14}));
  EXPECT_EQ(data->spec().inputs[1], (SampleInput{"weight", {1}, false}));
  EXPECT_THAT(integers_of(*data, 3, 0), ElementsAre(13));
  EXPECT_THAT(floats_of(*data, 1, 1), ElementsAre(0.5f));
  EXPECT_THAT(data->description(), HasSubstr("inputs kind (1) weight (1)"));
}

TEST_F(Inputs, OfNamedFeaturesAndSeveralColumns) {
  DatasetOptions options = table();
  options.features = {"b"};
  options.inputs = {{"two", "", "", {"weight", "a"}}};
  options.standardize = true;
  const auto data = open_dataset(options).train;
  EXPECT_THAT(data->spec().shape, ElementsAre(1));
  EXPECT_FLOAT_EQ(test::features_of(*data, 2)[0], 0) << "the mean of 20 to 24 is 22";
  EXPECT_THAT(floats_of(*data, 3, 0), ElementsAre(2, 3)) << "inputs are not standardised";
}

TEST_F(Inputs, OfFilesFollowTheirSamplesIntoBothParts) {
  DatasetOptions options = arrays();
  options.validation_split = 0.5;
  const DatasetPair pair = open_dataset(options);
  EXPECT_EQ(pair.train->spec().inputs[0], (SampleInput{"place", {3}, true, -2, 9}));
  EXPECT_THAT(integers_of(*pair.train, 1, 0), ElementsAre(6, 5, 4));
  EXPECT_THAT(integers_of(*pair.validation, 1, 0), ElementsAre(0, -1, -2));
  EXPECT_NE(fingerprint(*pair.train), fingerprint(*open_dataset(table()).train));
}

TEST_F(Inputs, ReachTheBatchesOfALoader) {
  for (const int prefetch : {0, 2}) {
    LoaderOptions options{.batch_size = 3, .shuffle = true, .seed = 5};
    options.last_batch = LastBatch::kPad;
    options.prefetch = prefetch;
    options.workers = prefetch > 0 ? 2 : 1;
    Loader loader(open_dataset(arrays()).train, options);
    for (int i = 0; i < 4; ++i) {
      const Batch& batch = loader.next();
      ASSERT_EQ(batch.inputs.size(), 1u);
      ASSERT_EQ(batch.inputs[0].integers.size(), 9u);
      EXPECT_TRUE(batch.inputs[0].floats.empty());
      for (std::size_t row = 0; row < 3; ++row) {
        const auto first = static_cast<int32_t>(9 - 3 * batch.samples[row]);
        EXPECT_EQ(batch.inputs[0].integers[3 * row], first);
        EXPECT_EQ(batch.inputs[0].integers[3 * row + 2], first - 2);
      }
    }
  }
}

TEST_F(Inputs, AreZerosInABatchOfZeros) {
  const Batch batch = zero_batch(open_dataset(table()).train->spec(), 4);
  EXPECT_THAT(batch.inputs[0].integers, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(batch.inputs[1].floats, ElementsAre(0, 0, 0, 0));
}

TEST_F(Inputs, WeighSamples) {
  LoaderOptions options{.batch_size = 5, .shuffle = false};
  options.label_weights.input = "weight";
  Loader loader(open_dataset(table()).train, options);
  const Batch& batch = loader.next();
  EXPECT_DOUBLE_EQ(weight_of(batch), 4.5);
  const LabelWeighing weighing(options.label_weights, open_dataset(table()).train->spec(), batch);
  EXPECT_EQ(weighing(1, 0), 0.5);
  EXPECT_EQ(weighing(2, 0), 0);
  options.label_weights.of_classes = {3, 1};
  Loader both(open_dataset(table()).train, options);
  EXPECT_DOUBLE_EQ(weight_of(both.next()), 3 + 0.5 + 0 + 2 + 3) << "both weights are multiplied";
}

TEST_F(Inputs, ThatAreNoWeightsAreRefused) {
  const auto data = open_dataset(table()).train;
  LoaderOptions options{.batch_size = 5, .shuffle = false};
  const auto refusal_of = [&](const std::string& name) -> std::string {
    options.label_weights.input = name;
    try {
      Loader loader(data, options);
    } catch (const ConfigurationError& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_THAT(refusal_of("wait"), AllOf(HasSubstr("training.sample_weights = \"wait\""),
                                        HasSubstr("expected kind, weight")));
  EXPECT_THAT(refusal_of("kind"), HasSubstr("1 integers a sample; expected one number"));
  DatasetOptions negative = table();
  negative.path = folder_.write("n.csv", "a,kind,b,weight,y\n0,10,20,-1,0\n0,10,20,1,0\n");
  options.label_weights.input = "weight";
  options.prefetch = 0;
  Loader loader(open_dataset(negative).train, options);
  EXPECT_THAT(test::message_of([&] { loader.next(); }), HasSubstr("sample 0 has the weight -1.0"));
}

TEST_F(Inputs, ThatDoNotFitAreRefused) {
  DatasetOptions options = table();
  options.inputs[1].integers = true;
  EXPECT_THAT(refusal(options), AllOf(HasSubstr("number 1 of the input weight is 0.5"),
                                      HasSubstr("expected a whole number of 32 bits")));
  options.inputs[1] = {"weight", "", "", {"y"}};
  EXPECT_THAT(refusal(options), HasSubstr("is the target and a feature or an input"));
  options.inputs[1] = {"weight", "", "", {"nothing"}};
  EXPECT_THAT(refusal(options), HasSubstr("there is no column \"nothing\""));
  options.inputs[1] = {"kind", "", "", {"weight"}};
  EXPECT_THAT(refusal(options), HasSubstr("the name stands twice"));
  options.inputs[1] = {"Kind", "", "", {"weight"}};
  EXPECT_THAT(refusal(options), HasSubstr("expected a name of small letters"));
  options.inputs[1] = {"other", "", "", {}};
  EXPECT_THAT(refusal(options), HasSubstr("expected either path, an NPY file, or columns"));

  options = arrays();
  options.inputs[0].path = file("q.npy", "<f4", "(3,)", test::raw<float>({1, 2, 3}));
  EXPECT_THAT(refusal(options), AllOf(HasSubstr("the input place of 3 samples"),
                                      HasSubstr("has 4 samples; expected as many")));
  options = arrays();
  options.validation_path = options.path;
  options.validation_target_path = options.target_path;
  EXPECT_THAT(refusal(options), HasSubstr("has no validation_path"));
  options.inputs[0].validation_path = file("v.npy", "<i4", "(4, 2)", std::string(32, '\0'));
  EXPECT_THAT(refusal(options), HasSubstr("the input place is 2 of a sample; expected 3"));
  options = arrays();
  options.inputs[0] = {"place", "", "", {"a"}, true};
  EXPECT_THAT(refusal(options), HasSubstr("input.columns is given, but is not used with"));
  DatasetOptions text;
  text.format = "text";
  text.path = folder_.write("a.txt", "aaaaaaaaaaaa");
  text.tokenizer = "byte";
  text.shape = {4};
  text.inputs = arrays().inputs;
  EXPECT_THAT(refusal(text), HasSubstr("[[dataset.input]]) is given, but is not used with"));
}

// The numbers that both parts have are those of the whole, so that a table has rows for all.
TEST_F(Inputs, OfTwoFilesAgreeInTheirNumbers) {
  DatasetOptions options = arrays();
  options.validation_path = options.path;
  options.validation_target_path = options.target_path;
  options.inputs[0].validation_path =
      file("v.npy", "<i4", "(4, 3)", test::raw<int32_t>(std::vector<int32_t>(12, 50)));
  const DatasetPair pair = open_dataset(options);
  EXPECT_EQ(pair.train->spec().inputs[0], (SampleInput{"place", {3}, true, -2, 50}));
  EXPECT_EQ(pair.validation->spec().inputs, pair.train->spec().inputs);
}

}  // namespace
}  // namespace runtime::data
