// Random changes of training images.
#ifndef RUNTIME_DATA_AUGMENT_H_
#define RUNTIME_DATA_AUGMENT_H_

#include <cstdint>
#include <vector>

namespace runtime::data {

struct Augmentation {
  int64_t crop_padding = 0;  // so many zeros on each side, of which a part of the old size is cut
  bool flip = false;         // every other image, left to right
  bool any() const { return crop_padding > 0 || flip; }
};

// Changes `image`, of `shape` [height, width, channels], as `seed`, the epoch and the sample's
// number in the data set say, and nothing else. `scratch`: as many numbers.
void augment(const Augmentation& augmentation, const std::vector<int64_t>& shape, uint64_t seed,
             int64_t epoch, int64_t sample, float* image, float* scratch);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_AUGMENT_H_
