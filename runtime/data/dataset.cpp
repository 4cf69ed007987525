// Reads several samples one by one, and regions out of whole images, for data sets that do no
// better.
#include "runtime/data/dataset.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "runtime/data/resample.h"
#include "runtime/error.h"

namespace runtime::data {

int64_t numbers_in(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::optional<std::size_t> SampleSpec::find_input(const std::string& name) const {
  const auto found = std::find_if(inputs.begin(), inputs.end(),
                                  [&](const SampleInput& input) { return input.name == name; });
  if (found == inputs.end()) return std::nullopt;
  return static_cast<std::size_t>(found - inputs.begin());
}

void Dataset::read_input(std::span<const int64_t>, std::size_t, InputArray) const {
  throw InternalError(description() + " has named inputs, but no function that reads them");
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
