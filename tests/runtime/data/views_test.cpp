// Checks ranges, splits and resized images of a data set.
#include "runtime/data/views.h"

#include <gmock/gmock.h>

#include <thread>

#include "runtime/data/memory_dataset.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using test::features_of;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

// Samples whose floats count up through the whole data set.
std::shared_ptr<const Dataset> floats(std::vector<int64_t> shape, int64_t samples) {
  Part part;
  part.title = "floats";
  part.shape = std::move(shape);
  part.samples = samples;
  part.floats.resize(static_cast<std::size_t>(samples * part.features()));
  for (std::size_t i = 0; i < part.floats.size(); ++i) part.floats[i] = static_cast<float>(i);
  part.targets.classes = 100;
  for (int64_t i = 0; i < samples; ++i) part.targets.labels.push_back(static_cast<int32_t>(i));
  return make_memory_dataset(hold(std::move(part), {}), {});
}

TEST(Range, ShiftsTheSamples) {
  const auto view = range_of(floats({2}, 5), 3, 5);
  EXPECT_EQ(view->size(), 2);
  EXPECT_THAT(features_of(*view, 1), ElementsAre(8, 9));
  EXPECT_EQ(view->label(0), 3);
  EXPECT_THAT(view->description(), HasSubstr("2 of them, from 3"));
}

TEST(Range, MustBeInside) {
  for (const auto& [begin, end] :
       std::vector<std::pair<int64_t, int64_t>>{{-1, 2}, {2, 2}, {3, 2}, {0, 6}}) {
    EXPECT_THAT(test::message_of([&, b = begin, e = end] { range_of(floats({2}, 5), b, e); }),
                HasSubstr("cannot take samples"));
  }
}

TEST(Resize, SameSizeChangesNothing) {
  const auto base = floats({3, 4, 2}, 2);
  EXPECT_EQ(features_of(*resized(base, {3, 4}), 1), features_of(*base, 1));
}

TEST(TrainingSamples, AreCountedAsDecimalNumbers) {
  for (int64_t hundredths = 1; hundredths < 100; ++hundredths) {
    const double split =
        std::stod("0." + std::string(hundredths < 10 ? "0" : "") + std::to_string(hundredths));
    for (const int64_t count : {100, 150, 1234567, 60000}) {
      // floor(count * (1 - split)) in whole numbers
      EXPECT_EQ(training_samples(count, split), count * (100 - hundredths) / 100)
          << count << " at " << split;
    }
  }
  EXPECT_EQ(training_samples(10, 0.8), 2);
  EXPECT_EQ(training_samples(10, 0.9), 1);
  EXPECT_EQ(training_samples(int64_t{1} << 40, 0.5), int64_t{1} << 39);
  EXPECT_EQ(training_samples(7, 0), 7);
  EXPECT_EQ(training_samples(3, 1e-9), 2);
  EXPECT_THAT(test::message_of([] { training_samples(10, 0.95, "tokens"); }),
              HasSubstr("dataset.validation_split = 0.95 of 10 tokens leaves one part empty"));
}

// The expected numbers are those of torch.nn.functional.interpolate(mode="bilinear",
// align_corners=False).
TEST(Resize, EnlargesWithHalfPixelCentres) {
  const auto view = resized(floats({2, 2, 1}, 1), {3, 4});
  EXPECT_THAT(view->spec().shape, ElementsAre(3, 4, 1));
  EXPECT_THAT(features_of(*view, 0),
              Pointwise(FloatNear(1e-6f),
                        std::vector<float>{0, 0.25, 0.75, 1, 1, 1.25, 1.75, 2, 2, 2.25, 2.75, 3}));
}

TEST(Resize, ReducesEveryChannelAlone) {
  const auto view = resized(floats({4, 4, 2}, 1), {2, 2});
  EXPECT_THAT(features_of(*view, 0),
              Pointwise(FloatNear(1e-6f), std::vector<float>{5, 6, 9, 10, 21, 22, 25, 26}));
}

TEST(Resize, ThreadsReadAtTheSameTime) {
  const auto view = resized(floats({8, 8, 1}, 50), {5, 5});
  const auto expected = features_of(*view, 49);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int64_t i = 0; i < 50; ++i) features_of(*view, i);
      EXPECT_EQ(features_of(*view, 49), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Resize, NeedsImagesAndSensibleSizes) {
  EXPECT_THAT(test::message_of([] { resized(floats({4}, 1), {2, 2}); }), HasSubstr("images"));
  EXPECT_THAT(test::message_of([] { resized(floats({2, 2, 1}, 1), {0, 2}); }), HasSubstr("0x2"));
  EXPECT_THAT(test::message_of([] {
                resized(floats({2, 2, 1}, 1), {2, 1 << 20});
              }),
              HasSubstr("1..32768"));
}

}  // namespace
}  // namespace runtime::data
