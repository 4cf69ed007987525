// Generated data sets for benchmarks and tests: nothing to read, cheap, and still learnable.
#ifndef RUNTIME_DATA_SYNTHETIC_H_
#define RUNTIME_DATA_SYNTHETIC_H_

#include <memory>

#include "runtime/data/dataset.h"

namespace runtime::data {

struct SyntheticOptions {
  std::vector<int64_t> shape;  // of a sample
  int64_t samples = 0;
  int64_t classes = 0;  // > 0: classification
  int64_t targets = 0;  // > 0: regression
  uint64_t seed = 0;
};

// Sample i is a stretch of a pool of random numbers. Classification: plus another stretch that
// belongs to its class, i modulo classes (a centroid). Regression: the targets are linear functions
// of the features. Throws ConfigurationError for sizes that make no sense.
std::shared_ptr<const Dataset> make_synthetic(const SyntheticOptions& options);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_SYNTHETIC_H_
