// Parts of images, and the random choice of one.
#ifndef RUNTIME_DATA_REGION_H_
#define RUNTIME_DATA_REGION_H_

#include <cstdint>

#include "runtime/data/bilinear.h"

namespace runtime::data {

// A rectangle inside an image, in pixels.
struct Region {
  int64_t top = 0, left = 0;
  ImageSize size;
  bool operator==(const Region&) const = default;
};

// A random choice, which depends only on these numbers and on the size of the image.
struct RandomRegion {
  double least_area = 0;  // of the region, as a share of the image's area; above 0, at most 1
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t sample = 0;  // number in the data set, below 2^56

  // Returns a region whose share of the area is uniform in least_area..1 and whose width divided by
  // height is log-uniform in 3/4..4/3. If none of ten draws fits, returns the largest region in the
  // centre whose sides have a ratio in this range. Equivalent to: torchvision's
  // RandomResizedCrop.get_params with scale = (least_area, 1).
  Region choose(ImageSize image) const;
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_REGION_H_
