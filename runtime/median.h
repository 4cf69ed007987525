// The middle of measurements.
#ifndef RUNTIME_MEDIAN_H_
#define RUNTIME_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace runtime {

// Returns the upper median; `values` must not be empty.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace runtime

#endif  // RUNTIME_MEDIAN_H_
