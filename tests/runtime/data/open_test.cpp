// Checks which files and keys each format takes, splits, statistics and search paths.
#include "runtime/data/open.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using test::features_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

std::string refusal_of(const DatasetOptions& options) {
  try {
    open_dataset(options);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

// Writes the four files of MNIST with 2x2 pixels: `train` samples for training and 2 others.
void write_mnist(const test::TempFolder& folder, const std::string& where, uint32_t train = 4) {
  folder.write(where + "/train-images-idx3-ubyte.gz",
               test::gzip(test::idx(0x08, {train, 2, 2}, test::counting(4 * train))));
  folder.write(where + "/train-labels-idx1-ubyte", test::idx(0x08, {train}, test::counting(train)));
  folder.write(where + "/t10k-images-idx3-ubyte", test::idx(0x08, {2, 2, 2}, test::counting(8)));
  folder.write(where + "/t10k-labels-idx1-ubyte.gz", test::gzip(test::idx(0x08, {2}, "\x09\x08")));
}

// Adjacent numbers of 1.7e9 are the same in float32.
TEST(OpenDataset, StandardisesBeforeItRounds) {
  const test::TempFolder folder;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::string table;
  for (int64_t i = 0; i < 4; ++i) {
    integers.push_back(1700000000 + i);
    reals.push_back(static_cast<double>(1700000000 + i));
    table += std::to_string(1700000000 + i) + "," + std::to_string(i % 2) + "\n";
  }
  DatasetOptions options;
  options.target_path = folder.write(
      "y.npy", test::npy(test::npy_header("<i4", "(4,)"), test::raw<int32_t>({0, 1, 0, 1})));
  options.standardize = true;
  const auto expect = [&](const std::string& format, const std::string& path) {
    options.format = format;
    options.path = path;
    const auto train = open_dataset(options).train;
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_THAT(features_of(*train, i),
                  ElementsAre(FloatNear((i - 1.5f) / std::sqrt(1.25f), 1e-6f)))
          << path;
    }
  };
  expect("npy",
         folder.write("i.npy", test::npy(test::npy_header("<i8", "(4, 1)"), test::raw(integers))));
  expect("npy",
         folder.write("d.npy", test::npy(test::npy_header("<f8", "(4, 1)"), test::raw(reals))));
  options.target_path.clear();
  options.target = "-1";
  expect("csv", folder.write("t.csv", table));
  options.standardize = false;
  options.mean = {1700000001.5};
  options.std = {std::sqrt(1.25)};
  expect("csv", folder.path("t.csv"));
}

// Ten times 0.1 is not 1, but the column never changes.
TEST(OpenDataset, AConstantColumnBecomesZero) {
  const test::TempFolder folder;
  DatasetOptions options;
  options.format = "csv";
  options.target = "-1";
  options.standardize = true;
  std::string table;
  for (int i = 0; i < 10; ++i) table += "0.1," + std::to_string(i % 2) + "\n";
  options.path = folder.write("t.csv", table);
  const DatasetPair pair = open_dataset(options);
  EXPECT_THAT(pair.preparation.features.deviation, ElementsAre(1));
  EXPECT_THAT(features_of(*pair.train, 3), ElementsAre(0));
}

TEST(OpenDataset, FindsFashionMnist) {
  const test::TempFolder folder;
  write_mnist(folder, "second/fashion-mnist");
  write_mnist(folder, "second/mnist", 3);
  DatasetOptions options;
  options.name = "fashion_mnist";
  options.search_path = {folder.path("first"), folder.path("second")};
  const DatasetPair pair = open_dataset(options);
  EXPECT_EQ(pair.train->description(), "Fashion-MNIST, 4 samples of 2x2x1, 10 classes");
  EXPECT_EQ(pair.validation->description(), "Fashion-MNIST, 2 samples of 2x2x1, 10 classes");
  EXPECT_THAT(features_of(*pair.train, 1), ElementsAre(4 / 255.f, 5 / 255.f, 6 / 255.f, 7 / 255.f));
  EXPECT_EQ(pair.train->label(3), 3);
  EXPECT_EQ(pair.validation->label(0), 9);
  options.name = "mnist";
  EXPECT_EQ(open_dataset(options).train->description(), "MNIST, 3 samples of 2x2x1, 10 classes");
  options.search_path = {folder.path("second/mnist")};
  EXPECT_EQ(open_dataset(options).train->size(), 3);
  options.search_path.clear();
  options.path = folder.path("second/fashion-mnist");
  EXPECT_EQ(open_dataset(options).train->size(), 4);
}

TEST(OpenDataset, SaysWhereItSearchedAndWhatToInstall) {
  DatasetOptions options;
  options.name = "fashion_mnist";
  options.search_path = {"/dev/null/a", "/dev/null/b"};
  EXPECT_THAT(test::message_of([&] { open_dataset(options); }),
              AllOf(HasSubstr("/dev/null/a, /dev/null/b"), HasSubstr("dataset-fashion-mnist"),
                    HasSubstr("RUNTIME_DATA_PATH")));
}

TEST(OpenDataset, SearchPath) {
  EXPECT_THAT(split_search_path("/a:b::/c"), ElementsAre("/a", "b", "/c"));
  EXPECT_TRUE(split_search_path("").empty());
  EXPECT_THAT(split_search_path(nullptr), testing::Contains("/usr/share/datasets"));
}

TEST(OpenDataset, MeanAndDeviationPerChannel) {
  const test::TempFolder folder;
  DatasetOptions options;
  options.format = "idx";
  options.path =
      folder.write("x", test::idx(0x08, {1, 1, 2, 2}, std::string("\x00\xff\x33\x66", 4)));
  options.target_path = folder.write("y", test::idx(0x08, {1}, std::string(1, '\0')));
  options.mean = {0.5, 0.2};
  options.std = {0.5, 0.1};
  const DatasetPair pair = open_dataset(options);
  EXPECT_EQ(pair.validation, nullptr);
  EXPECT_THAT(pair.train->spec().shape, ElementsAre(1, 2, 2));
  EXPECT_THAT(features_of(*pair.train, 0), Pointwise(FloatNear(1e-5f), {-1.f, 8.f, -0.6f, 2.f}));
  options.std = {0.5};
  EXPECT_THAT(features_of(*open_dataset(options).train, 0),
              Pointwise(FloatNear(1e-5f), {-1.f, 1.6f, -0.6f, 0.4f}));
  options.mean = {1, 2, 3};
  EXPECT_THAT(refusal_of(options), HasSubstr("3 numbers; expected one, or 2"));
  options.mean = {};
  options.std = {0};
  EXPECT_THAT(refusal_of(options), HasSubstr("not above 0"));
}

TEST(OpenDataset, ValidationSplitTakesTheLastSamples) {
  const test::TempFolder folder;
  write_mnist(folder, "mnist", 5);
  DatasetOptions options;
  options.name = "mnist";
  options.path = folder.path("mnist");
  options.validation_split = 0.3;  // floor(5 * 0.7) = 3 samples remain for training, as in Keras
  const DatasetPair pair = open_dataset(options);
  EXPECT_EQ(pair.train->size(), 3);
  ASSERT_EQ(pair.validation->size(), 2);
  EXPECT_EQ(pair.validation->label(0), 3);
  options.validation_split = 0.01;
  EXPECT_EQ(open_dataset(options).validation->size(), 1);
  options.validation_split = 0.99;
  EXPECT_THAT(test::message_of([&] { open_dataset(options); }), HasSubstr("one part empty"));
}

TEST(OpenDataset, StandardizesByTheTrainingPartOnly) {
  const test::TempFolder folder;
  DatasetOptions options;
  options.format = "csv";
  options.path = folder.write("a.csv", "a,b,y\n1,7,10\n3,7,20\n100,8,30\n");
  options.target = "y";
  options.classification = false;
  options.standardize = true;
  options.validation_split = 0.3;
  const DatasetPair pair = open_dataset(options);
  EXPECT_THAT(features_of(*pair.train, 0), ElementsAre(-1, 0));
  EXPECT_THAT(features_of(*pair.train, 1), ElementsAre(1, 0));
  EXPECT_THAT(features_of(*pair.validation, 0), ElementsAre(98, 1));
  float target = 0;
  pair.validation->read_targets(0, &target);
  EXPECT_EQ(target, 30);
}

TEST(OpenDataset, CsvWithItsOwnValidationFile) {
  const test::TempFolder folder;
  DatasetOptions options;
  options.format = "csv";
  options.path = folder.write("a.csv", "a,y\n2,p\n4,q\n");
  options.validation_path = folder.write("v.csv", "a,y\n6,q\n");
  options.target = "y";
  options.standardize = true;
  const DatasetPair pair = open_dataset(options);
  EXPECT_THAT(features_of(*pair.validation, 0), ElementsAre(3));
  EXPECT_EQ(pair.validation->label(0), 1);
  EXPECT_EQ(pair.validation->spec().classes, 2);
}

TEST(OpenDataset, NpyForRegressionAndClassification) {
  const test::TempFolder folder;
  DatasetOptions options;
  options.format = "npy";
  options.path = folder.write(
      "x.npy", test::npy(test::npy_header("<f4", "(2, 3)"), test::raw<float>({1, 2, 3, 4, 5, 6})));
  options.target_path = folder.write(
      "t.npy", test::npy(test::npy_header("<f8", "(2, 2)"), test::raw<double>({1, 2, 3, 4})));
  options.classification = false;
  const DatasetPair regression = open_dataset(options);
  EXPECT_EQ(regression.train->spec().targets, 2);
  float targets[2] = {};
  regression.train->read_targets(1, targets);
  EXPECT_THAT(targets, ElementsAre(3, 4));
  EXPECT_THAT(features_of(*regression.train, 1), ElementsAre(4, 5, 6));
  options.classification = true;
  options.target_path = folder.write(
      "y.npy", test::npy(test::npy_header("<i8", "(2, 1)"), test::raw<int64_t>({6, 0})));
  EXPECT_EQ(open_dataset(options).train->spec().classes, 7);
}

TEST(OpenDataset, Uint8ImagesInNpyAreScaled) {
  const test::TempFolder folder;
  DatasetOptions options;
  options.format = "npy";
  options.path = folder.write(
      "x.npy", test::npy(test::npy_header("|u1", "(1, 1, 2)"), std::string("\x00\xff", 2)));
  options.target_path =
      folder.write("y.npy", test::npy(test::npy_header("|u1", "(1,)"), std::string(1, '\x01')));
  options.resize = {1, 4};
  const DatasetPair pair = open_dataset(options);
  EXPECT_THAT(pair.train->spec().shape, ElementsAre(1, 4, 1));
  EXPECT_THAT(features_of(*pair.train, 0), Pointwise(FloatNear(1e-6f), {0.f, 0.25f, 0.75f, 1.f}));
}

TEST(OpenDataset, FilesThatDoNotBelongTogether) {
  const test::TempFolder folder;
  DatasetOptions options;
  options.format = "idx";
  options.path = folder.write("x", test::idx(0x08, {3, 1, 1}, "abc"));
  options.target_path = folder.write("y", test::idx(0x08, {2}, std::string(2, '\1')));
  EXPECT_THAT(test::message_of([&] { open_dataset(options); }),
              AllOf(HasSubstr("y has 2 targets"), HasSubstr("x has 3 samples")));
  options.target_path = folder.write("y", test::idx(0x08, {3}, std::string(3, '\1')));
  options.validation_path = folder.write("v", test::idx(0x08, {1, 2, 1}, "ab"));
  options.validation_target_path = folder.write("w", test::idx(0x08, {1}, std::string(1, '\1')));
  EXPECT_THAT(test::message_of([&] { open_dataset(options); }),
              AllOf(HasSubstr("v: samples have shape 2x1x1"), HasSubstr("expected 1x1x1")));
  folder.write("v", test::idx(0x08, {1, 1, 1}, "a"));
  folder.write("w", test::idx(0x08, {1}, "\x02"));
  EXPECT_THAT(test::message_of([&] { open_dataset(options); }), HasSubstr("is 2; expected 0..1"));
  folder.write("x", test::idx(0x08, {0, 1, 1}, ""));
  folder.write("y", test::idx(0x08, {0}, ""));
  options.validation_path.clear();
  EXPECT_THAT(test::message_of([&] { open_dataset(options); }),
              AllOf(HasSubstr("0x1x1"), HasSubstr("at least one sample")));
}

TEST(OpenDataset, OptionsThatDoNotBelongTogether) {
  DatasetOptions options;
  EXPECT_THAT(refusal_of(options), HasSubstr("dataset.format"));
  options.name = "imagenet";
  EXPECT_THAT(refusal_of(options), HasSubstr("fashion_mnist, mnist, cifar10"));
  options.name = "";
  options.format = "csv";
  EXPECT_THAT(refusal_of(options), HasSubstr("dataset.path is missing"));
  options.path = "a.csv";
  EXPECT_THAT(refusal_of(options), HasSubstr("dataset.target is missing"));
  options.resize = {1, 2, 3};
  EXPECT_THAT(refusal_of(options), HasSubstr("[height, width]"));
}

TEST(OpenDataset, KeysThatTheFormatDoesNotRead) {
  DatasetOptions synthetic;
  synthetic.name = "synthetic";
  const auto refused = [](DatasetOptions options, auto change) {
    change(options);
    return refusal_of(options);
  };
  EXPECT_THAT(refused(synthetic, [](auto& o) { o.path = "x"; }),
              HasSubstr("dataset.path is given, but is not used with the data set synthetic"));
  EXPECT_THAT(refused(synthetic, [](auto& o) { o.standardize = true; }), HasSubstr("standardize"));
  DatasetOptions cifar;
  cifar.format = "cifar10";
  cifar.path = "x";
  EXPECT_THAT(refused(cifar, [](auto& o) { o.classification = false; }), HasSubstr("regression"));
  EXPECT_THAT(refused(cifar, [](auto& o) { o.validation_path = "v"; }),
              HasSubstr("dataset.validation_path"));
  DatasetOptions mnist;
  mnist.name = "mnist";
  mnist.path = "x";
  EXPECT_THAT(refused(mnist, [](auto& o) { o.target_path = "y"; }), HasSubstr("target_path"));
  EXPECT_THAT(refused(mnist, [](auto& o) { o.validation_path = "v"; }),
              HasSubstr("validation_path"));
  EXPECT_THAT(refused(mnist, [](auto& o) { o.target = "y"; }),
              HasSubstr("dataset.target is given"));
  EXPECT_THAT(refused(mnist, [](auto& o) { o.features = {"y"}; }), HasSubstr("dataset.features"));
  EXPECT_THAT(refused(mnist, [](auto& o) { o.samples = 5; }), HasSubstr("dataset.samples"));
}

TEST(OpenDataset, Synthetic) {
  DatasetOptions options;
  options.name = "synthetic";
  options.shape = {8, 8, 3};
  options.samples = 100;
  options.classes = 5;
  options.validation_split = 0.2;
  const DatasetPair pair = open_dataset(options);
  EXPECT_EQ(pair.train->size(), 80);
  EXPECT_EQ(pair.validation->size(), 20);
  EXPECT_EQ(pair.train->spec().classes, 5);
  options.classification = false;
  options.classes = 0;
  EXPECT_EQ(open_dataset(options).train->spec().targets, 1);
}

}  // namespace
}  // namespace runtime::data
