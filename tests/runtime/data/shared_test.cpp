// Data sets whose memory processes share are those that a process reads for itself.
#include "runtime/data/shared.h"

#include <gmock/gmock.h>

#include <fstream>
#include <random>
#include <span>

#include "runtime/data/open.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using testing::IsEmpty;

// Whether this process has mapped memory that others may have, too.
bool maps_shared_memory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:runtime data") != std::string::npos) return true;
  }
  return false;
}

DatasetPair opened(DatasetOptions options, bool shared) {
  options.shared = shared;
  return open_dataset(options);
}

void expect_same(const Dataset& a, const Dataset& b) {
  ASSERT_EQ(a.description(), b.description());
  ASSERT_EQ(a.size(), b.size());
  ASSERT_EQ(a.spec().inputs, b.spec().inputs);
  const SampleSpec& spec = a.spec();
  ASSERT_EQ(spec.characters, b.spec().characters);
  const auto numbers = [&](const Dataset& of, int64_t index) {
    std::vector<float> all(static_cast<std::size_t>(spec.features()));
    of.read_features(index, all.data());
    std::vector<float> targets(static_cast<std::size_t>(spec.targets));
    if (spec.targets > 0) of.read_targets(index, targets.data());
    std::vector<int32_t> labels(static_cast<std::size_t>(spec.labels));
    if (spec.classes > 0) of.read_labels(index, labels.data());
    all.insert(all.end(), targets.begin(), targets.end());
    all.insert(all.end(), labels.begin(), labels.end());
    for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
      std::vector<float> floats(static_cast<std::size_t>(spec.inputs[i].numbers()));
      std::vector<int32_t> integers(floats.size());
      const bool whole = spec.inputs[i].integers;
      of.read_input(std::span(&index, 1), i,
                    {whole ? nullptr : floats.data(), whole ? integers.data() : nullptr});
      all.insert(all.end(), floats.begin(), floats.end());
      all.insert(all.end(), integers.begin(), integers.end());
    }
    return all;
  };
  for (int64_t i = 0; i < a.size(); ++i) ASSERT_EQ(numbers(a, i), numbers(b, i)) << i;
}

void expect_same(const DatasetOptions& options) {
  const DatasetPair own = opened(options, false);
  ASSERT_FALSE(maps_shared_memory());
  const DatasetPair first = opened(options, true), second = opened(options, true);
  EXPECT_THAT(first.notes, IsEmpty());
  EXPECT_THAT(second.notes, IsEmpty());
  ASSERT_TRUE(maps_shared_memory());
  for (const DatasetPair* const pair : {&first, &second}) {
    expect_same(*own.train, *pair->train);
    ASSERT_EQ(own.validation == nullptr, pair->validation == nullptr);
    if (own.validation) expect_same(*own.validation, *pair->validation);
    EXPECT_EQ(to_json(own.preparation), to_json(pair->preparation));
    EXPECT_EQ(own.labelled, pair->labelled);
  }
}

class Shared : public testing::Test {
 protected:
  const test::TempFolder folder_;
};

// A table of five columns of numbers and a target.
std::string table(std::mt19937& random, int rows, bool words, bool header) {
  std::string text = header ? "a,b,c,d,e,y\n" : "";
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < 5; ++column)
      text += std::to_string(static_cast<int>(random() % 2000000) - 1000000) + ",";
    text += words ? std::string(1, static_cast<char>('p' + row % 3)) : std::to_string(random() % 9);
    text += "\n";
  }
  return text;
}

TEST_F(Shared, TablesAreTheSame) {
  std::mt19937 random(1);
  for (int seed = 0; seed < 40; ++seed) {
    const auto coin = [&] { return random() % 2 == 0; };
    DatasetOptions options;
    options.format = "csv";
    options.classification = coin();
    const bool header = coin();
    options.header = header;
    options.target = header ? "y" : "-1";
    options.path = folder_.write("t" + std::to_string(seed) + ".csv",
                                 table(random, 30, options.classification, header));
    if (coin())
      options.validation_path = folder_.write("v" + std::to_string(seed) + ".csv",
                                              table(random, 9, options.classification, header));
    else if (coin())
      options.validation_split = 0.2;
    if (coin())
      options.standardize = true;
    else if (coin())
      options.mean = {3.5}, options.std = {0.25};
    if (coin()) {
      options.inputs.push_back({"whole", "", "", {header ? "b" : "1", header ? "d" : "3"}, coin()});
    }
    expect_same(options);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST_F(Shared, TextsAreTheSame) {
  std::mt19937 random(2);
  for (const char* const tokenizer : {"char", "byte"}) {
    for (const bool validation : {false, true}) {
      DatasetOptions options;
      options.format = "text";
      options.tokenizer = tokenizer;
      std::string text = "abcdefghijklmnopqrstuvwxyz";
      for (int i = 0; i < 200000; ++i) text += static_cast<char>('a' + random() % 26);
      options.path = folder_.write(std::string(tokenizer) + ".txt", text);
      if (validation) options.validation_path = folder_.write("v.txt", text.substr(0, 999));
      options.shape = {100};
      options.validation_split = validation ? 0 : 0.1;
      if (options.tokenizer == "byte") options.separator = "z";
      expect_same(options);
    }
  }
}

TEST_F(Shared, AFileThatHasChangedIsReadAgain) {
  DatasetOptions options;
  options.format = "text";
  options.tokenizer = "byte";
  options.shape = {2};
  options.path = folder_.write("a.txt", "abcabc");
  const DatasetPair before = opened(options, true);
  folder_.write("a.txt", "xyzxyz");
  const DatasetPair after = opened(options, true);
  EXPECT_EQ(test::features_of(*before.train, 0)[0], 'a');
  EXPECT_EQ(test::features_of(*after.train, 0)[0], 'x');
}

TEST_F(Shared, OtherOptionsAreOtherMemory) {
  DatasetOptions options;
  options.format = "csv";
  options.target = "y";
  options.classification = false;
  options.path = folder_.write("a.csv", "a,y\n1,2\n3,4\n");
  const DatasetPair plain = opened(options, true);
  options.standardize = true;
  const DatasetPair standardized = opened(options, true);
  EXPECT_EQ(test::features_of(*plain.train, 1)[0], 3);
  EXPECT_EQ(test::features_of(*standardized.train, 1)[0], 1);
}

TEST_F(Shared, ErrorsAreThoseOfTheFile) {
  DatasetOptions options;
  options.format = "csv";
  options.target = "y";
  options.classification = false;
  options.path = folder_.write("a.csv", "a,y\n1,2\nthree,4\n");
  const std::string own = test::message_of([&] { opened(options, false); });
  EXPECT_EQ(test::message_of([&] { opened(options, true); }), own);
  EXPECT_NE(own, "");
}

}  // namespace
}  // namespace runtime::data
