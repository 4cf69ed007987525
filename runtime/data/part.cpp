// Makes features and targets of arrays, and checks that their numbers fit.
#include "runtime/data/part.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/system/available_memory.h"

namespace runtime::data {

void require_floats(std::size_t count, const std::string& name) {
  system::require_memory(count * sizeof(float), name + ": its features as float32",
                         "use a smaller file or a machine with more memory");
}

Part features_of(Array array, bool normalised) {
  Part part;
  part.title = array.name;
  if (array.dims.empty() || array.elements() == 0) {
    throw DataError(array.name + ": the array has shape " + shape_text(array.dims) +
                    "; expected at least one sample of at least one feature");
  }
  part.samples = array.dims[0];
  part.shape.assign(array.dims.begin() + 1, array.dims.end());
  if (part.shape.size() != 1 && part.shape.size() < 3) part.shape.push_back(1);
  if (array.type == ElementType::kUint8) {
    part.bytes = std::move(array.bytes);
  } else if (normalised && !fits_float(array.type)) {
    part.doubles = to_doubles(array);
  } else {
    part.floats = to_floats(array);
  }
  return part;
}

void check_counts(const Array& features, const Array& targets) {
  const int64_t samples = features.dims.empty() ? 0 : features.dims[0];
  const int64_t labels = targets.dims.empty() ? 0 : targets.dims[0];
  if (samples == labels) return;
  throw DataError(targets.name + " has " + std::to_string(labels) + " targets, but " +
                  features.name + " has " + std::to_string(samples) +
                  " samples; expected as many of one as of the other, the files do not belong "
                  "together");
}

Targets classification_targets(const Array& array, int64_t classes) {
  Targets targets;
  targets.labels = to_labels(array, classes);
  targets.classes = classes;
  if (classes == 0 && !targets.labels.empty()) {
    targets.classes = *std::max_element(targets.labels.begin(), targets.labels.end()) + 1;
  }
  return targets;
}

Targets regression_targets(const Array& array) {
  Targets targets;
  targets.values = to_floats(array);
  targets.per_sample =
      array.dims.empty() || array.dims[0] == 0 ? 1 : array.elements() / array.dims[0];
  return targets;
}

}  // namespace runtime::data
