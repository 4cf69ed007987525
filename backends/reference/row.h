// Sums over one row, in double, with the row's maximum subtracted.
#ifndef BACKENDS_REFERENCE_ROW_H_
#define BACKENDS_REFERENCE_ROW_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace backends::reference {

// log(sum of exp(row[j])); `width` >= 1.
template <typename T>
double log_sum_exp(const T* row, int64_t width) {
  const double largest = static_cast<double>(*std::max_element(row, row + width));
  double sum = 0;
  for (int64_t j = 0; j < width; ++j) sum += std::exp(static_cast<double>(row[j]) - largest);
  return largest + std::log(sum);
}

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_ROW_H_
