// One split of a data set as a file format gives it, before normalisation: features and targets.
#ifndef RUNTIME_DATA_PART_H_
#define RUNTIME_DATA_PART_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/array.h"
#include "runtime/data/dataset.h"

namespace runtime::data {

// The targets of all samples: one label for each (classes > 0), or `per_sample` values
// (regression).
struct Targets {
  int64_t classes = 0;
  std::vector<int32_t> labels;
  int64_t per_sample = 0;
  std::vector<float> values;
};

// One split: training or validation. Its features are either bytes, which are scaled to 0..1 when
// they are read, or numbers, which are taken as they are: as floats, or as doubles if they have
// digits that float32 has not and are normalised later, which makes them floats.
struct Part {
  std::string title;
  std::vector<int64_t> shape;  // of one sample
  int64_t samples = 0;
  Bytes bytes;
  std::vector<float> floats;
  std::vector<double> doubles = {};  // instead of floats
  Targets targets;
  int64_t features() const { return numbers_in(shape); }  // numbers in one sample
  // The number `index` of all samples that are not bytes.
  double number(std::size_t index) const {
    return doubles.empty() ? static_cast<double>(floats[index]) : doubles[index];
  }
};

// Throws DataError unless there is memory for `count` numbers of the data set `name` as float32.
void require_floats(std::size_t count, const std::string& name);

// Makes a split with features and no targets from an array whose first dimension counts samples:
// [n] is one number for each sample, [n, f] are vectors, [n, h, w] images of one channel, [n, h, w,
// c] images. With `normalised` numbers keep all their digits. Throws DataError.
Part features_of(Array array, bool normalised = false);

// Throws DataError unless both arrays have the same number of samples, and at least one.
void check_counts(const Array& features, const Array& targets);

// Return the targets of an array as labels or as numbers. If `classes` is 0, the number of classes
// is taken from the data. Throw DataError.
Targets classification_targets(const Array& array, int64_t classes);
Targets regression_targets(const Array& array);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_PART_H_
