// The matrix product that matmul and the convolutions share.
#ifndef BACKENDS_REFERENCE_PRODUCT_H_
#define BACKENDS_REFERENCE_PRODUCT_H_

#include <algorithm>
#include <cstdint>

namespace backends::reference {

// A matrix whose element (i, j) is data[i * row + j * column]. Swapping the two strides transposes
// it.
template <typename T>
struct MatrixView {
  const T* data;
  int64_t row, column;
};

// The number of rows of a and of columns of b that are multiplied together. 2 x 8 sums in double
// take half of the vector registers that every x86-64 processor has; the other half holds operands.
inline constexpr int kRows = 2;
inline constexpr int64_t kPanel = 8;

// The number of doubles of workspace that multiply() needs for an inner dimension of k.
inline int64_t panel_elements(int64_t k) { return k * kPanel; }

// Multiplies `Rows` rows of a by the columns of the panel [k][kPanel].
template <int Rows, typename T>
void dot_panel(const T* a, int64_t row, int64_t column, int64_t k, const double* panel,
               double (&sums)[Rows][kPanel]) {
  double local[Rows][kPanel] = {};
  for (int64_t l = 0; l < k; ++l) {
    for (int r = 0; r < Rows; ++r) {
      const double value = static_cast<double>(a[r * row + l * column]);
      for (int j = 0; j < kPanel; ++j) local[r][j] += value * panel[l * kPanel + j];
    }
  }
  for (int r = 0; r < Rows; ++r) std::copy_n(local[r], kPanel, sums[r]);
}

// Calls store(i, j, sum over l of a(i,l) b(l,j)) for every i < m and j < n. Sums are in double and
// in the order of l. `panel` has room for panel_elements(k).
template <typename T, typename Store>
void multiply(int64_t m, int64_t n, int64_t k, MatrixView<T> a, MatrixView<T> b, double* panel,
              Store&& store) {
  for (int64_t j0 = 0; j0 < n; j0 += kPanel) {
    const int64_t width = std::min(kPanel, n - j0);
    for (int64_t l = 0; l < k; ++l) {
      for (int64_t j = 0; j < kPanel; ++j) {
        panel[l * kPanel + j] =
            j < width ? static_cast<double>(b.data[l * b.row + (j0 + j) * b.column]) : 0.0;
      }
    }
    int64_t i = 0;
    for (; i + kRows <= m; i += kRows) {
      double sums[kRows][kPanel];
      dot_panel<kRows>(a.data + i * a.row, a.row, a.column, k, panel, sums);
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t j = 0; j < width; ++j) store(i + r, j0 + j, sums[r][j]);
      }
    }
    for (; i < m; ++i) {
      double sums[1][kPanel];
      dot_panel<1>(a.data + i * a.row, a.row, a.column, k, panel, sums);
      for (int64_t j = 0; j < width; ++j) store(i, j0 + j, sums[0][j]);
    }
  }
}

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_PRODUCT_H_
