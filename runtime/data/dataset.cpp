// Reads several samples one by one, and regions out of whole images, for data sets that do no
// better.
#include "runtime/data/dataset.h"

#include "runtime/data/resample.h"

namespace runtime::data {

int64_t SampleSpec::features() const {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  return count;
}

void Dataset::read_samples(std::span<const int64_t> indices, float* features, int32_t* labels,
                           float* targets) const {
  const SampleSpec& s = spec();
  const int64_t size = s.features();
  for (const int64_t index : indices) {
    read_features(index, features);
    features += size;
    if (labels != nullptr) {
      read_labels(index, labels);
      labels += s.labels;
    }
    if (targets != nullptr) {
      read_targets(index, targets);
      targets += s.targets;
    }
  }
}

void Dataset::read_region(int64_t index, const RandomRegion& region, float* out,
                          float* scratch) const {
  const std::vector<int64_t>& shape = spec().shape;
  const ImageSize size{shape[0], shape[1]};
  read_features(index, scratch);
  Resampler(size, box_of(region.choose(size)), size).apply(scratch, shape[2], out);
}

}  // namespace runtime::data
