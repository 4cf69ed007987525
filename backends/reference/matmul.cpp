// matmul: c [..., M, N] = a [..., M, K] b [..., K, N]
#include "backends/reference/check.h"
#include "backends/reference/families.h"
#include "backends/reference/product.h"

namespace backends::reference {
namespace {

struct Shape {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;
  bool b_has_batch;
};

Shape check(const Operation& op, rt_dtype dtype) {
  expect_counts(op, 2, 1);
  const Dims a = dims_of(input_of_min_rank(op, 0, "a", 2));
  const Dims b = dims_of(input_of_min_rank(op, 1, "b", 2));
  Shape s{};
  s.transpose_a = op.integer(RT_ATTR_TRANSPOSE_A, 0) != 0;
  s.transpose_b = op.integer(RT_ATTR_TRANSPOSE_B, 0) != 0;
  const size_t ra = a.size(), rb = b.size();
  s.m = a[ra - (s.transpose_a ? 1 : 2)];
  s.k = a[ra - (s.transpose_a ? 2 : 1)];
  s.n = b[rb - (s.transpose_b ? 2 : 1)];
  const Dims leading(a.begin(), a.end() - 2);
  s.batch = product(leading);
  s.b_has_batch = rb > 2;
  Dims expected_b = s.b_has_batch ? leading : Dims{};
  expected_b.insert(expected_b.end(), {s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n});
  expect_input(op, 1, "b", dtype, expected_b);
  Dims c = leading;
  c.insert(c.end(), {s.m, s.n});
  expect_output(op, 0, "c", dtype, c);
  return s;
}

template <typename T>
void run(const Shape& s, const T* a, const T* b, T* c, double* panel) {
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

}  // namespace

Kernel make_matmul(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "a");
  const Shape s = check(op, dtype);
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.workspace_bytes = panel_elements(s.k) * sizeof(double);
    kernel.run = [s](const Buffers& b) {
      run(s, b.input<T>(0), b.input<T>(1), b.output<T>(0), b.scratch<double>());
    };
    return kernel;
  });
}

}  // namespace backends::reference
