// Draws a region's area and shape until one fits into the image.
#include "runtime/data/region.h"

#include <algorithm>
#include <cmath>

#include "runtime/data/philox.h"

namespace runtime::data {
namespace {

constexpr double kWidest = 4.0 / 3;  // width divided by height; its inverse is the narrowest
constexpr int kDraws = 10;

// Returns a number in 0..1, without 1.
double uniform(uint32_t random) { return static_cast<double>(random) / 4294967296.0; }

// Returns a number in 0..count-1.
int64_t below(uint32_t random, int64_t count) {
  return static_cast<int64_t>(uint64_t{random} * static_cast<uint64_t>(count) >> 32);
}

int64_t rounded(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

Region in_the_centre(ImageSize image) {
  Region region{0, 0, image};
  const double ratio = static_cast<double>(image.width) / static_cast<double>(image.height);
  if (ratio > kWidest)
    region.size.width = rounded(static_cast<double>(image.height) * kWidest);
  else if (ratio < 1 / kWidest)
    region.size.height = rounded(static_cast<double>(image.width) * kWidest);
  region.top = (image.height - region.size.height) / 2;
  region.left = (image.width - region.size.width) / 2;
  return region;
}

}  // namespace

Region RandomRegion::choose(ImageSize image) const {
  const double area = static_cast<double>(image.height) * static_cast<double>(image.width);
  const double widest = std::log(kWidest);
  for (int draw = 0; draw < kDraws; ++draw) {
    const uint64_t block = static_cast<uint64_t>(sample) | static_cast<uint64_t>(draw) << 56;
    const PhiloxCounter random =
        random_block(seed, RandomUse::kRegion, static_cast<uint32_t>(epoch), block);
    const double wanted = area * (least_area + (1 - least_area) * uniform(random[0]));
    const double ratio = std::exp(widest * (2 * uniform(random[1]) - 1));
    const ImageSize size{rounded(std::sqrt(wanted / ratio)), rounded(std::sqrt(wanted * ratio))};
    if (size.height < 1 || size.width < 1) continue;
    if (size.height > image.height || size.width > image.width) continue;
    return {below(random[2], image.height - size.height + 1),
            below(random[3], image.width - size.width + 1), size};
  }
  return in_the_centre(image);
}

}  // namespace runtime::data
