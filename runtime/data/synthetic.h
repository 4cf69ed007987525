// Generated data sets for benchmarks and tests: cheap to make, without files, and still learnable.
#ifndef RUNTIME_DATA_SYNTHETIC_H_
#define RUNTIME_DATA_SYNTHETIC_H_

#include <memory>

#include "runtime/data/dataset.h"

namespace runtime::data {

// The sizes of a synthetic data set, for classification or regression.
struct SyntheticOptions {
  std::vector<int64_t> shape;  // of one sample
  int64_t samples = 0;
  int64_t classes = 0;  // > 0: classification
  int64_t targets = 0;  // > 0: regression
  uint64_t seed = 0;
};

// Makes a data set whose sample i is a range of a pool of random numbers. For classification, the
// range that belongs to its class, i modulo classes, is added to it as a centroid. For regression,
// the targets are linear functions of the features. Throws ConfigurationError for sizes that make
// no sense.
std::shared_ptr<const Dataset> make_synthetic(const SyntheticOptions& options);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_SYNTHETIC_H_
