// Random changes of training images (data augmentation).
#ifndef RUNTIME_DATA_AUGMENT_H_
#define RUNTIME_DATA_AUGMENT_H_

#include <cstdint>
#include <vector>

namespace runtime::data {

// Which changes are made.
struct Augmentation {
  int64_t crop_padding = 0;  // zeros added on each side before a crop of the old size
  bool flip = false;         // mirrors an image left to right with probability 1/2
  // Above 0: a random region, whose share of the image's area is at least this, is scaled to the
  // size of a sample when the image is read (region.h).
  double least_area = 0;
  bool any() const { return crop_padding > 0 || flip || least_area > 0; }
};

// Pads, cuts and mirrors `image`, of `shape` [height, width, channels], in place. The change
// depends only on `seed`, the epoch and the sample's number in the data set. `scratch` has room for
// as many numbers as the image.
void augment(const Augmentation& augmentation, const std::vector<int64_t>& shape, uint64_t seed,
             int64_t epoch, int64_t sample, float* image, float* scratch);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_AUGMENT_H_
