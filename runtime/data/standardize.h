// Standardisation of features to mean 0 and deviation 1, measured on the training samples only.
#ifndef RUNTIME_DATA_STANDARDIZE_H_
#define RUNTIME_DATA_STANDARDIZE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/data/part.h"

namespace runtime::data {

// One entry for each feature of a sample. A feature that never changes has deviation 1.
struct FeatureStatistics {
  std::vector<double> mean;
  std::vector<double> deviation;  // of the population: the sum of squares is divided by n
};

// Converts bytes to floats in 0..1; a split that holds numbers already stays as it is.
void make_floats(Part& part);
// Measures the first `samples` samples of a split, which holds numbers.
FeatureStatistics measure(const Part& part, int64_t samples);
// Calls its argument with the features of each sample, in order; it is called twice.
using EachSample = std::function<void(const std::function<void(const double*)>&)>;
// Measures `samples` samples of `features` numbers. The same samples give the same statistics as
// in a split.
FeatureStatistics measure(int64_t features, int64_t samples, const EachSample& each);
// Normalises the features in float64 and makes floats of them.
void standardize(Part& part, const FeatureStatistics& statistics);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_STANDARDIZE_H_
