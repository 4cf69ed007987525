// Checks that a preparation comes back with its bits, and that differences are named.
#include "runtime/data/preparation.h"

#include <gmock/gmock.h>

#include "runtime/data/open.h"
#include "runtime/error.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Preparation example() {
  Preparation p;
  p.columns = {"height", "weight, kg"};
  p.class_names = {"chat", "chien \xC3\xA9"};
  p.classes = 2;
  p.targets = 3;
  p.features = {{1.0 / 3, 1e300}, {0.1, 5e-324}};
  p.mean = {0.485};
  p.std = {0.229};
  p.resize = {32, 48};
  p.resize_shorter = 64;
  p.tokenizer = "char";
  p.characters = "\n ab";
  return p;
}

std::string refusal_of(const Preparation& saved, const Preparation& now) {
  try {
    check_same(saved, now, "weights");
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(Preparation, KeepsEveryBit) {
  const Preparation read = parse_preparation(to_json(example()), "file");
  EXPECT_EQ(refusal_of(example(), read), "");
  EXPECT_EQ(read.features.mean, example().features.mean);
  EXPECT_EQ(read.features.deviation, example().features.deviation);
  EXPECT_EQ(read.class_names, example().class_names);
  EXPECT_EQ(to_json(read), to_json(example()));
}

TEST(Preparation, ADifferenceIsNamed) {
  Preparation now = example();
  now.resize = {};
  now.class_names = {"chien \xC3\xA9", "chat"};
  EXPECT_THAT(refusal_of(example(), now),
              AllOf(HasSubstr("dataset.resize"), HasSubstr("[32,48] in training, not set now"),
                    HasSubstr("the names of the classes"), Not(HasSubstr("dataset.mean"))));
  now = example();
  now.features.deviation[0] = 0.2;
  EXPECT_THAT(refusal_of(example(), now), HasSubstr("dataset.standardize (feature_deviation)"));
}

TEST(Preparation, WhatCannotBeReadIsRefused) {
  for (const char* text : {"", "[]", "{}", R"({"columns": 3})"})
    EXPECT_THROW(parse_preparation(text, "file"), DataError) << text;
  Preparation uneven = example();
  uneven.features.mean.pop_back();
  EXPECT_THROW(parse_preparation(to_json(uneven), "file"), DataError);
}

TEST(Preparation, StatisticsOfAnotherNumberOfFeaturesAreRefused) {
  EXPECT_THROW(known_statistics(example(), 3, "table"), DataError);
  EXPECT_THAT(known_statistics(example(), 2, "table").mean, ElementsAre(1.0 / 3, 1e300));
}

TEST(Preparation, StandardisesByTheKnownStatistics) {
  const test::TempFolder folder;
  DatasetOptions options;
  options.format = "csv";
  options.target = "y";
  options.standardize = true;
  options.path = folder.write("train.csv", "a,y\n1,red\n3,blue\n");
  const DatasetPair train = open_dataset(options);
  EXPECT_THAT(train.preparation.features.mean, ElementsAre(2));
  EXPECT_THAT(train.preparation.class_names, ElementsAre("blue", "red"));
  options.preparation = std::make_shared<Preparation>(train.preparation);
  options.path = folder.write("new.csv", "b,a\n0,5\n");
  EXPECT_THROW(open_dataset(options), DataError);
  options.needs_targets = false;
  const DatasetPair later = open_dataset(options);
  float feature = 0;
  later.train->read_features(0, &feature);
  EXPECT_EQ(feature, 3);
  EXPECT_FALSE(later.labelled);
  EXPECT_EQ(refusal_of(train.preparation, later.preparation), "");
}

}  // namespace
}  // namespace runtime::data
