// matmul: c [..., M, N] = a [..., M, K] b [..., K, N]; optionally d [M], the sums over the rows of
// a transposed a.
#include "rt/sdk/matmul.h"

#include "backends/reference/check.h"
#include "backends/reference/families.h"
#include "backends/reference/product.h"

namespace backends::reference {
namespace {

using rt::sdk::MatmulShape;

template <typename T>
void run(const MatmulShape& s, const T* a, const T* b, T* c, double* panel) {
  for (int64_t batch = 0; batch < s.batch; ++batch) {
    const MatrixView<T> left{a + batch * s.m * s.k, s.transpose_a ? 1 : s.k,
                             s.transpose_a ? s.m : 1};
    const MatrixView<T> right{b + (s.b_has_batch ? batch * s.k * s.n : 0), s.transpose_b ? 1 : s.n,
                              s.transpose_b ? s.k : 1};
    T* result = c + batch * s.m * s.n;
    multiply(s.m, s.n, s.k, left, right, panel,
             [&](int64_t i, int64_t j, double sum) { result[i * s.n + j] = static_cast<T>(sum); });
  }
}

// a is [K, M].
template <typename T>
void sum_rows(const MatmulShape& s, const T* a, T* d) {
  for (int64_t j = 0; j < s.m; ++j) {
    double sum = 0;
    for (int64_t row = 0; row < s.k; ++row) sum += static_cast<double>(a[row * s.m + j]);
    d[j] = static_cast<T>(sum);
  }
}

}  // namespace

Kernel make_matmul(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "a");
  const MatmulShape s = rt::sdk::matmul_shape(op, dtype);
  const Kernel needs{.workspace_bytes = panel_elements(s.k) * sizeof(double)};
  return floating_kernel(dtype, needs, [s]<typename T>(const Buffers& b) {
    run(s, b.input<T>(0), b.input<T>(1), b.output<T>(0), b.scratch<double>());
    if (s.sums_rows) sum_rows(s, b.input<T>(0), b.output<T>(1));
  });
}

}  // namespace backends::reference
