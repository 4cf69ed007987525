// Checks that random changes are fair, and the same for any ranks and workers.
#include "runtime/data/augment.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "runtime/data/loader.h"
#include "runtime/data/resample.h"
#include "runtime/data/synthetic.h"
#include "runtime/data/views.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

const std::vector<int64_t> kShape = {5, 4, 2};
constexpr std::size_t kCount = 40;

std::vector<float> augmented(const Augmentation& a, int64_t epoch, int64_t sample) {
  std::vector<float> image(kCount), scratch(kCount);
  std::iota(image.begin(), image.end(), 1.0f);
  augment(a, kShape, 42, epoch, sample, image.data(), scratch.data());
  return image;
}

// The expected result: the image, moved and mirrored by hand.
std::vector<float> moved(int down, int right, bool mirrored) {
  std::vector<float> image;
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 4; ++x) {
      const int from_y = y + down, from_x = (mirrored ? 3 - x : x) + right;
      const bool inside = from_y >= 0 && from_y < 5 && from_x >= 0 && from_x < 4;
      for (int c = 0; c < 2; ++c)
        image.push_back(inside ? static_cast<float>((from_y * 4 + from_x) * 2 + c + 1) : 0.0f);
    }
  }
  return image;
}

TEST(Augment, EveryPlaceAndBothSidesComeUpEquallyOften) {
  std::map<std::vector<float>, int> seen;
  constexpr int kDraws = 9000;
  for (int i = 0; i < kDraws; ++i) ++seen[augmented({1, true}, i % 3, i)];
  EXPECT_EQ(seen.size(), 18u);
  for (int down = -1; down <= 1; ++down) {
    for (int right = -1; right <= 1; ++right) {
      for (const bool mirrored : {false, true})
        EXPECT_NEAR(seen[moved(down, right, mirrored)], kDraws / 18.0, 90) << down << " " << right;
    }
  }
}

TEST(Augment, NothingUnlessAskedFor) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(augmented({}, 0, i), moved(0, 0, false));
    const std::vector<float> flipped = augmented({0, true}, 0, i);
    EXPECT_TRUE(flipped == moved(0, 0, false) || flipped == moved(0, 0, true));
  }
}

TEST(Augment, DependsOnEpochAndSample) {
  std::set<std::vector<float>> images;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    for (int64_t sample = 0; sample < 4; ++sample)
      images.insert(augmented({2, true}, epoch, sample));
  }
  EXPECT_GT(images.size(), 8u);
  EXPECT_EQ(augmented({4, true}, 2, 3), augmented({4, true}, 2, 3));
}

// Augmentation does not depend on the ranks that load the rows of a batch, nor on prefetching.
TEST(Augment, IsTheSameOnAnyNumberOfRanks) {
  const auto images = make_synthetic({.shape = {6, 6, 3}, .samples = 24, .classes = 3, .seed = 1});
  LoaderOptions whole;
  whole.batch_size = 8;
  whole.seed = 5;
  whole.prefetch = 0;
  whole.augmentation = {2, true};
  LoaderOptions half = whole;
  half.prefetch = 3;
  half.part = [](int64_t rows, int) {
    std::vector<int64_t> own(static_cast<std::size_t>(rows / 2));
    std::iota(own.begin(), own.end(), rows / 2);
    return own;
  };
  LoaderOptions plain = whole;
  plain.augmentation = {};
  Loader all(images, whole), second(images, half), unchanged(images, plain);
  bool differs = false;
  for (int batch = 0; batch < 6; ++batch) {
    const auto& features = all.next().features;
    const auto& rest = second.next().features;
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), features.begin() + features.size() / 2));
    differs |= unchanged.next().features != features;
  }
  EXPECT_TRUE(differs);
}

// Which worker changes an image, and when, makes no difference.
TEST(Augment, HasTheSameBitsForAnyNumberOfWorkers) {
  const auto images = make_synthetic({.shape = {6, 6, 3}, .samples = 53, .classes = 3, .seed = 1});
  LoaderOptions o;
  o.batch_size = 16;
  o.seed = 5;
  o.prefetch = 0;
  o.augmentation = {2, true};
  Loader expected(images, o);
  o.prefetch = 3;
  o.workers = 1;
  Loader one(images, o);
  o.workers = 4;
  Loader four(images, o);
  for (int batch = 0; batch < 12; ++batch) {
    const Batch& e = expected.next();
    for (Loader* loader : {&one, &four}) {
      const Batch& b = loader->next();
      EXPECT_EQ(b.features, e.features);
      EXPECT_EQ(b.labels, e.labels);
      EXPECT_EQ(b.samples, e.samples);
      EXPECT_EQ(b.index, e.index);
    }
  }
}

// Images in memory are cut, too, also those of a split, whose samples have other numbers.
TEST(Augment, ScalesRegionsOfImagesInMemory) {
  const auto images = make_synthetic({.shape = {9, 7, 3}, .samples = 24, .classes = 3, .seed = 1});
  const DatasetPair split = split_at(images, 16);
  LoaderOptions o;
  o.batch_size = 4;
  o.shuffle = false;
  o.augmentation = {.least_area = 0.3};
  Loader loader(split.validation, o);
  const Batch& batch = loader.next();
  std::vector<float> image(9 * 7 * 3), scaled(image.size());
  for (int64_t row = 0; row < 4; ++row) {
    images->read_features(16 + row, image.data());
    const Region region = RandomRegion{0.3, o.seed, 0, row}.choose({9, 7});
    Resampler({9, 7}, box_of(region), {9, 7}).apply(image.data(), 3, scaled.data());
    EXPECT_TRUE(std::equal(scaled.begin(), scaled.end(),
                           batch.features.begin() + row * static_cast<int64_t>(scaled.size())));
    EXPECT_EQ(batch.labels[static_cast<std::size_t>(row)], images->label(16 + row));
  }
  o.augmentation.crop_padding = 1;
  EXPECT_THROW(Loader(images, o), ConfigurationError);
}

TEST(Augment, NeedsImages) {
  const auto vectors = make_synthetic({.shape = {6}, .samples = 24, .classes = 3});
  LoaderOptions options;
  options.augmentation = {2, false};
  EXPECT_THROW(Loader(vectors, options), ConfigurationError);
  options.augmentation = {.least_area = 0.5};
  EXPECT_THROW(Loader(vectors, options), ConfigurationError);
}

}  // namespace
}  // namespace runtime::data
