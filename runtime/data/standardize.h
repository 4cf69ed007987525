// Mean 0 and deviation 1 per feature, measured on the training part only.
#ifndef RUNTIME_DATA_STANDARDIZE_H_
#define RUNTIME_DATA_STANDARDIZE_H_

#include <cstdint>
#include <vector>

#include "runtime/data/part.h"

namespace runtime::data {

// One entry per feature of a sample. A feature that never changes has deviation 1.
struct FeatureStatistics {
  std::vector<double> mean;
  std::vector<double> deviation;  // of the population: divided by n
};

// Bytes become floats in 0..1; a part of floats stays.
void make_floats(Part& part);
// Over the first `samples` samples of a part of floats.
FeatureStatistics measure(const Part& part, int64_t samples);
void standardize(Part& part, const FeatureStatistics& statistics);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_STANDARDIZE_H_
