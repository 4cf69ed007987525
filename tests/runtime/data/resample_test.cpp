// Compares the resampler with its definition.
#include "runtime/data/resample.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace runtime::data {
namespace {

using testing::FloatNear;
using testing::Pointwise;

std::vector<float> random_image(ImageSize size, int64_t channels) {
  std::mt19937 random(1);
  std::vector<float> image(static_cast<std::size_t>(size.height * size.width * channels));
  for (float& number : image) number = static_cast<float>(random() % 256);
  return image;
}

std::vector<float> resample(const std::vector<float>& image, ImageSize from, Box box, ImageSize to,
                            int64_t channels) {
  std::vector<float> out(static_cast<std::size_t>(to.height * to.width * channels));
  Resampler(from, box, to).apply(image.data(), channels, out.data());
  return out;
}

// The definition: each output number is a mean of all pixels that lie in the box, with the weights
// of a triangle.
std::vector<float> by_definition(const std::vector<float>& image, ImageSize from, Box box,
                                 ImageSize to, int64_t channels) {
  const auto weight = [](double begin, double size, int64_t count, int64_t i, int64_t pixel) {
    if (static_cast<double>(pixel + 1) <= begin || static_cast<double>(pixel) >= begin + size)
      return 0.0;
    const double scale = size / static_cast<double>(count), reach = std::max(1.0, scale);
    const double centre = begin + (static_cast<double>(i) + 0.5) * scale;
    return std::max(0.0, 1 - std::abs(static_cast<double>(pixel) + 0.5 - centre) / reach);
  };
  std::vector<float> out;
  for (int64_t i = 0; i < to.height * to.width * channels; ++i) {
    const int64_t c = i % channels, x = i / channels % to.width, y = i / channels / to.width;
    double sum = 0, weights = 0;
    for (int64_t row = 0; row < from.height; ++row) {
      for (int64_t column = 0; column < from.width; ++column) {
        const double w = weight(box.top, box.height, to.height, y, row) *
                         weight(box.left, box.width, to.width, x, column);
        const auto at = static_cast<std::size_t>((row * from.width + column) * channels + c);
        sum += w * static_cast<double>(image[at]);
        weights += w;
      }
    }
    out.push_back(static_cast<float>(sum / weights));
  }
  return out;
}

TEST(Resampler, FollowsItsDefinition) {
  constexpr ImageSize kFrom{23, 31};
  const Box boxes[] = {{0, 0, 23, 31}, {3, 5, 17, 11}, {2.25, 7.5, 10.5, 20.25}, {22, 30, 1, 1}};
  for (const int64_t channels : {1, 3, 4}) {
    const std::vector<float> image = random_image(kFrom, channels);
    for (const Box& box : boxes) {
      for (const ImageSize to : {ImageSize{5, 7}, {23, 31}, {40, 9}, {1, 1}}) {
        EXPECT_THAT(resample(image, kFrom, box, to, channels),
                    Pointwise(FloatNear(1e-3f), by_definition(image, kFrom, box, to, channels)));
      }
    }
  }
}

TEST(Resampler, ChangesNothingAtTheSameSize) {
  const std::vector<float> image = random_image({9, 6}, 3);
  EXPECT_EQ(resample(image, {9, 6}, {0, 0, 9, 6}, {9, 6}, 3), image);
}

// Where an image grows, this is bilinear interpolation.
TEST(Resampler, GrowsAsBilinearDoes) {
  const std::vector<float> image = random_image({5, 4}, 3);
  std::vector<float> bilinear(std::size_t{11} * 13 * 3);
  Bilinear({5, 4}, {11, 13}, 0).apply(image.data(), 3, bilinear.data());
  EXPECT_THAT(resample(image, {5, 4}, {0, 0, 5, 4}, {11, 13}, 3),
              Pointwise(FloatNear(1e-3f), bilinear));
}

TEST(Resampler, TakesBytes) {
  std::vector<uint8_t> bytes(std::size_t{6} * 8 * 3);
  std::iota(bytes.begin(), bytes.end(), uint8_t{1});
  const std::vector<float> image(bytes.begin(), bytes.end());
  std::vector<float> out(std::size_t{3} * 5 * 3);
  Resampler({6, 8}, {1, 1, 4, 6}, {3, 5}).apply(bytes.data(), 3, out.data());
  EXPECT_EQ(out, resample(image, {6, 8}, {1, 1, 4, 6}, {3, 5}, 3));
}

}  // namespace
}  // namespace runtime::data
