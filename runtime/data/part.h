// What a file format gives, before normalisation: features and targets of a number of samples.
#ifndef RUNTIME_DATA_PART_H_
#define RUNTIME_DATA_PART_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/array.h"
#include "runtime/data/dataset.h"

namespace runtime::data {

// One per sample: labels (classes > 0) or `per_sample` values (regression).
struct Targets {
  int64_t classes = 0;
  std::vector<int32_t> labels;
  int64_t per_sample = 0;
  std::vector<float> values;
};

// Features are either bytes, scaled to 0..1 when read, or floats, taken as they are.
struct Part {
  std::string title;
  std::vector<int64_t> shape;  // of a sample
  int64_t samples = 0;
  Bytes bytes;
  std::vector<float> floats;
  Targets targets;
  int64_t features() const;  // numbers per sample
};

// Makes the features of a part from an array whose first dimension counts samples: [n] one number,
// [n, f] vectors, [n, h, w] images of one channel, [n, h, w, c] images. Throws DataError.
Part features_of(Array array);

// Throws DataError unless both files have the same number of samples, and at least one.
void check_counts(const Array& features, const Array& targets);

// Labels of an array, or its numbers; `classes` 0: from the data.
Targets classification_targets(const Array& array, int64_t classes);
Targets regression_targets(const Array& array);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_PART_H_
