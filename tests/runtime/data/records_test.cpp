// Checks data sets over samples that somebody else reads, and what of them is refused.
#include "runtime/data/records.h"

#include <gmock/gmock.h>

#include <cstring>
#include <mutex>

#include "runtime/data/fingerprint.h"
#include "runtime/data/loader.h"
#include "runtime/data/open.h"
#include "runtime/error.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

// Records in memory, which remember how many were read with each call.
class Memory final : public Records {
 public:
  Memory(RecordSpec spec, std::vector<float> features, std::vector<int32_t> labels)
      : spec_(std::move(spec)), features_(std::move(features)), labels_(std::move(labels)) {}

  const RecordSpec& spec() const override { return spec_; }
  void read(std::span<const int64_t> indices, void* features, void* targets) const override {
    {
      const std::lock_guard lock(mutex_);
      calls_.push_back(indices.size());
    }
    const std::size_t size = features_.size() / static_cast<std::size_t>(spec_.samples);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const auto sample = static_cast<std::size_t>(indices[i]);
      for (std::size_t f = 0; f < size && features != nullptr; ++f) {
        const float value = features_[sample * size + f];
        if (spec_.bytes) {
          static_cast<uint8_t*>(features)[i * size + f] = static_cast<uint8_t>(value);
        } else {
          static_cast<float*>(features)[i * size + f] = value;
        }
      }
      const auto each = static_cast<std::size_t>(spec_.targets);
      for (std::size_t t = 0; t < each && targets != nullptr; ++t) {
        const int32_t label = labels_[sample * each + t];
        if (spec_.classes > 0) {
          static_cast<int32_t*>(targets)[i * each + t] = label;
        } else {
          static_cast<float*>(targets)[i * each + t] = static_cast<float>(label) / 2;
        }
      }
    }
  }
  std::vector<std::size_t> take_calls() const {
    const std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }

 private:
  RecordSpec spec_;
  std::vector<float> features_;
  std::vector<int32_t> labels_;
  mutable std::mutex mutex_;
  mutable std::vector<std::size_t> calls_;
};

RecordSpec table(int64_t samples) {
  return {.title = "a table", .shape = {2}, .samples = samples, .classes = 3};
}

std::shared_ptr<const Memory> four() {
  return std::make_shared<Memory>(table(4), std::vector<float>{1, 10, 2, 20, 3, 30, 6, 60},
                                  std::vector<int32_t>{0, 1, 2, 1});
}

class RecordsTest : public testing::Test {
 protected:
  DatasetPair open(std::shared_ptr<const Records> train,
                   std::shared_ptr<const Records> validation = nullptr) {
    options_.format = "plugin.format";
    options_.path = "a";
    options_.open_records = [&](const DatasetOptions& given) {
      EXPECT_EQ(given.path, "a");
      return RecordsPair{train, validation};
    };
    return open_dataset(options_);
  }
  std::string refusal(std::shared_ptr<const Records> train,
                      std::shared_ptr<const Records> validation = nullptr) {
    return error_of([&] { open(train, validation); });
  }

  template <class Body>
  static std::string error_of(Body&& body) {
    try {
      body();
    } catch (const DataError& error) {
      return error.what();
    }
    return "no DataError";
  }
  static std::vector<float> features(const Dataset& data, int64_t index) {
    std::vector<float> out(static_cast<std::size_t>(data.spec().features()));
    data.read_features(index, out.data());
    return out;
  }

  DatasetOptions options_;
};

TEST_F(RecordsTest, AreADataSet) {
  const DatasetPair pair = open(four());
  EXPECT_EQ(pair.validation, nullptr);
  EXPECT_EQ(pair.train->size(), 4);
  EXPECT_EQ(pair.train->description(), "a table, 4 samples of 2, 3 classes");
  EXPECT_THAT(features(*pair.train, 3), ElementsAre(6, 60));
  EXPECT_EQ(pair.train->label(2), 2);
}

TEST_F(RecordsTest, ValidationSplitTakesTheLastOnes) {
  options_.validation_split = 0.5;
  const DatasetPair pair = open(four());
  EXPECT_EQ(pair.train->size(), 2);
  ASSERT_EQ(pair.validation->size(), 2);
  EXPECT_THAT(features(*pair.validation, 0), ElementsAre(3, 30));
  EXPECT_EQ(pair.validation->label(1), 1);
  const int64_t indices[] = {1, 0, 1};
  float read[6];
  int32_t labels[3];
  pair.validation->read_samples(indices, read, labels, nullptr);
  EXPECT_THAT(read, ElementsAre(6, 60, 3, 30, 6, 60));
  EXPECT_THAT(labels, ElementsAre(1, 2, 1));
}

// A part that does not begin at the first sample translates indices 64 at a time.
TEST_F(RecordsTest, LargeBatchesOfAPart) {
  std::vector<float> values;
  std::vector<int32_t> labels;
  for (int i = 0; i < 300; ++i) {
    values.insert(values.end(), {static_cast<float>(i), static_cast<float>(-i)});
    labels.push_back(i % 3);
  }
  options_.validation_split = 0.5;
  const DatasetPair pair = open(std::make_shared<Memory>(table(300), values, labels));
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < 150; ++i) indices.push_back(149 - i);
  std::vector<float> read(300);
  std::vector<int32_t> read_labels(150);
  pair.validation->read_samples(indices, read.data(), read_labels.data(), nullptr);
  for (std::size_t i = 0; i < 150; ++i) {
    EXPECT_EQ(read[2 * i], static_cast<float>(299 - i));
    EXPECT_EQ(read[2 * i + 1], -static_cast<float>(299 - i));
    EXPECT_EQ(read_labels[i], static_cast<int32_t>((299 - i) % 3));
  }
}

TEST_F(RecordsTest, ABatchIsReadWithOneCall) {
  const auto records = four();
  const DatasetPair pair = open(records);
  records->take_calls();
  LoaderOptions options;
  options.batch_size = 3;
  options.shuffle = false;
  options.prefetch = 0;
  Loader loader(pair.train, options);
  const Batch& batch = loader.next();
  EXPECT_THAT(batch.features, ElementsAre(1, 10, 2, 20, 3, 30));
  EXPECT_THAT(batch.labels, ElementsAre(0, 1, 2));
  EXPECT_THAT(records->take_calls(), ElementsAre(3));
}

TEST_F(RecordsTest, NumbersAreTargetsOfRegression) {
  options_.classification = false;
  RecordSpec spec = table(2);
  spec.classes = 0;
  spec.targets = 2;
  const auto data =
      open(std::make_shared<Memory>(spec, std::vector<float>(4), std::vector<int32_t>{1, 2, 3, 4}))
          .train;
  EXPECT_EQ(data->spec().targets, 2);
  float targets[2];
  data->read_targets(1, targets);
  EXPECT_THAT(targets, ElementsAre(1.5, 2));
}

// As in the file formats of this room: x / 255, then (x - mean) / std for each channel.
TEST_F(RecordsTest, BytesAreScaledAsThoseOfFiles) {
  RecordSpec spec{.title = "images", .shape = {1, 2, 2}, .bytes = true, .samples = 2, .classes = 3};
  const std::vector<float> pixels = {0, 255, 51, 102, 7, 200, 13, 90};
  const auto records = std::make_shared<Memory>(spec, pixels, std::vector<int32_t>{0, 2});
  EXPECT_THAT(features(*open(records).train, 0), ElementsAre(0, 1, 51 / 255.0f, 102 / 255.0f));
  options_.mean = {0.5, 0.25};
  options_.std = {0.1, 0.2};
  const auto channel = [](float byte, float mean, float std) {
    return (byte / 255.0f - mean) / std;
  };
  const auto data = open(records).train;
  EXPECT_THAT(features(*data, 1), ElementsAre(channel(7, 0.5f, 0.1f), channel(200, 0.25f, 0.2f),
                                              channel(13, 0.5f, 0.1f), channel(90, 0.25f, 0.2f)));
  options_.resize = {1, 1};
  EXPECT_THAT(open(records).train->spec().shape, ElementsAre(1, 1, 2));
}

// The same numbers in a CSV file give the same features, to the bit.
TEST_F(RecordsTest, StandardizeMeasuresTheTrainingSamplesAsForFiles) {
  test::TempFolder folder;
  const std::string csv = folder.write("a.csv", "a,b,y\n1,10,0\n2,20,1\n3,30,2\n6,60,1\n");
  DatasetOptions file;
  file.format = "csv";
  file.path = csv;
  file.target = "y";
  file.standardize = options_.standardize = true;
  file.validation_split = options_.validation_split = 0.25;
  const DatasetPair expected = open_dataset(file);
  const DatasetPair actual = open(four());
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_THAT(features(*actual.train, i), ElementsAreArray(features(*expected.train, i)));
  EXPECT_THAT(features(*actual.validation, 0), ElementsAreArray(features(*expected.validation, 0)));
  EXPECT_EQ(fingerprint(*actual.train), fingerprint(*expected.train));
}

TEST_F(RecordsTest, LabelsAreCheckedWhenTheyAreRead) {
  for (const int32_t label : {-1, 3}) {
    const auto data = open(std::make_shared<Memory>(table(2), std::vector<float>(4),
                                                    std::vector<int32_t>{0, label}))
                          .train;
    EXPECT_EQ(data->label(0), 0);
    EXPECT_THAT(error_of([&] { data->label(1); }),
                AllOf(HasSubstr("a table: sample 1 has label " + std::to_string(label)),
                      HasSubstr("from 0 to 2")));
    LoaderOptions options;
    options.batch_size = 2;
    Loader loader(data, options);
    EXPECT_THROW(loader.next(), DataError);
  }
  options_.classes = 4;
  EXPECT_EQ(open(std::make_shared<Memory>(table(1), std::vector<float>(2), std::vector<int32_t>{3}))
                .train->label(0),
            3);
}

TEST_F(RecordsTest, TokensOfALanguageModel) {
  options_.next_token = true;
  RecordSpec spec = table(2);
  spec.targets = 2;
  const std::vector<int32_t> labels = {1, 2, 2, 0};
  const auto tokens = [&](std::vector<float> ids) {
    return std::make_shared<Memory>(spec, std::move(ids), labels);
  };
  const auto data = open(tokens({0, 1, 1, 2})).train;
  EXPECT_EQ(data->spec().labels, 2);
  EXPECT_EQ(data->label(1), 2);
  EXPECT_THAT(features(*data, 1), ElementsAre(1, 2));
  for (const float wrong : {3.0f, -1.0f, 0.5f, std::numeric_limits<float>::quiet_NaN()}) {
    const auto bad = open(tokens({0, 1, 1, wrong})).train;
    EXPECT_THAT(error_of([&] { features(*bad, 1); }), HasSubstr("sample 1 has token"));
  }
  EXPECT_THAT(refusal(four()), HasSubstr("1 labels each; expected 2, one for each token"));
  options_.next_token = false;
  EXPECT_THAT(refusal(tokens({0, 1, 1, 2})), HasSubstr("2 labels each; expected 1, or"));
}

TEST_F(RecordsTest, WhatDoesNotFitTheTaskIsRefused) {
  options_.classification = false;
  EXPECT_THAT(refusal(four()), HasSubstr("classes as targets; expected numbers"));
  options_.classification = true;
  RecordSpec spec = table(4);
  spec.classes = 0;
  const auto numbers =
      std::make_shared<Memory>(spec, std::vector<float>(8), std::vector<int32_t>(4));
  EXPECT_THAT(refusal(numbers), HasSubstr("numbers as targets; expected classes"));
  options_.classes = 2;
  EXPECT_THAT(refusal(four()), HasSubstr("3 classes; expected at most 2 (dataset.classes)"));
}

TEST_F(RecordsTest, ValidationSamplesMustFitTheTrainingSamples) {
  const auto other = [](auto&& change) {
    RecordSpec spec = table(1);
    spec.title = "validation";
    change(spec);
    return std::make_shared<Memory>(spec, std::vector<float>(2), std::vector<int32_t>(2));
  };
  EXPECT_EQ(open(four(), other([](RecordSpec&) {})).validation->size(), 1);
  EXPECT_THAT(refusal(four(), other([](RecordSpec& s) {
                        s.shape = {1, 1, 2};
                      })),
              HasSubstr("validation: the samples have the shape 1x1x2; expected 2"));
  EXPECT_THAT(refusal(four(), other([](RecordSpec& s) { s.bytes = true; })), HasSubstr("of bytes"));
  EXPECT_THAT(refusal(four(), other([](RecordSpec& s) { s.classes = 4; })),
              HasSubstr("1 targets of 4 classes; expected 1 of at most 3"));
  EXPECT_THAT(refusal(four(), other([](RecordSpec& s) { s.classes = 0; })),
              HasSubstr("of 0 classes"));
}

TEST_F(RecordsTest, SizesThatDoNotFitIntoMemoryAreRefused) {
  RecordSpec spec = table(int64_t{1} << 40);
  const auto many = std::make_shared<Memory>(spec, std::vector<float>(2), std::vector<int32_t>(1));
  EXPECT_THAT(refusal(many), AllOf(HasSubstr("the order of its samples takes 8388608"),
                                   HasSubstr("of memory are available")));
  spec = table(1);
  spec.shape = {int64_t{1} << 40};
  const auto large = std::make_shared<Memory>(spec, std::vector<float>(2), std::vector<int32_t>(1));
  EXPECT_THAT(refusal(large), HasSubstr("a table: one sample takes"));
}

TEST_F(RecordsTest, KeysOfOtherFormatsAreRefused) {
  options_.target = "y";
  EXPECT_THROW(open(four()), ConfigurationError);
  options_ = {};
  options_.format = "plugin.format";
  EXPECT_THROW(open_dataset(options_), ConfigurationError) << "without plugins";
}

}  // namespace
}  // namespace runtime::data
