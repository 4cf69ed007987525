// Crops and mirrors an image by random numbers of its epoch and sample.
#include "runtime/data/augment.h"

#include <algorithm>

#include "runtime/data/philox.h"

namespace runtime::data {
namespace {

void mirror(float* image, int64_t height, int64_t width, int64_t channels) {
  for (float* row = image; row < image + height * width * channels; row += width * channels) {
    for (float *left = row, *right = row + (width - 1) * channels; left < right;
         left += channels, right -= channels)
      std::swap_ranges(left, left + channels, right);
  }
}

}  // namespace

void augment(const Augmentation& augmentation, const std::vector<int64_t>& shape, uint64_t seed,
             int64_t epoch, int64_t sample, float* image, float* scratch) {
  const PhiloxCounter random =
      random_block(seed, RandomUse::kAugment, static_cast<uint32_t>(epoch), sample);
  const int64_t padding = augmentation.crop_padding, places = 2 * padding + 1;
  const auto offset = [&](int word) {
    return static_cast<int64_t>(uint64_t{random[word]} * static_cast<uint64_t>(places) >> 32) -
           padding;
  };
  const int64_t down = offset(0), right = offset(1);
  const bool mirrored = augmentation.flip && random[2] >> 31 != 0;
  const int64_t height = shape[0], width = shape[1], channels = shape[2];
  if (padding == 0) {
    if (mirrored) mirror(image, height, width, channels);
    return;
  }
  std::copy_n(image, height * width * channels, scratch);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x, image += channels) {
      const int64_t from_y = y + down, from_x = (mirrored ? width - 1 - x : x) + right;
      if (from_y >= 0 && from_y < height && from_x >= 0 && from_x < width) {
        std::copy_n(scratch + (from_y * width + from_x) * channels, channels, image);
      } else {
        std::fill_n(image, channels, 0.0f);
      }
    }
  }
}

}  // namespace runtime::data
