// Sums over one row, in double, with the row's maximum subtracted.
#ifndef BACKENDS_REFERENCE_ROW_H_
#define BACKENDS_REFERENCE_ROW_H_

#include <cmath>
#include <cstdint>

namespace backends::reference {

// log(softmax(row)[j]) = (row[j] - largest) - log_sum, computed in this order, because the rounding
// of largest + log_sum would lose digits if all elements of a row are large.
struct RowSum {
  double largest;
  double log_sum;  // log(sum of exp(row[j] - largest))
  double log_probability(double x) const { return (x - largest) - log_sum; }
};

// The index of the first of the largest elements, or of the first NaN if there is one. `width` >=
// 1.
template <typename T>
int64_t first_largest(const T* row, int64_t width) {
  int64_t best = 0;
  for (int64_t j = 1; j < width; ++j) {
    if (row[j] > row[best] || (row[j] != row[j] && row[best] == row[best])) best = j;
  }
  return best;
}

// The RowSum of a row. `width` >= 1.
template <typename T>
RowSum sum_row(const T* row, int64_t width) {
  const double largest = static_cast<double>(row[first_largest(row, width)]);
  double sum = 0;
  for (int64_t j = 0; j < width; ++j) sum += std::exp(static_cast<double>(row[j]) - largest);
  return {largest, std::log(sum)};
}

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_ROW_H_
