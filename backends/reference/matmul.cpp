// matmul: c [..., M, N] = a [..., M, K] b [..., K, N]; optionally d [M], the sums over the rows of
// a transposed a.
#include "backends/reference/check.h"
#include "backends/reference/families.h"
#include "backends/reference/product.h"
#include "rt/sdk/post_ops.h"

namespace backends::reference {
namespace {

struct Shape {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;
  bool b_has_batch;
  bool sums_rows;
};

// The second output, if there is one.
void check_row_sums(const Operation& op, Shape& s, rt_dtype dtype) {
  s.sums_rows = rt::sdk::own_output_count(op) > 1;
  expect_counts(op, 2, s.sums_rows ? 2 : 1);
  if (!s.sums_rows) return;
  if (!s.transpose_a) op.fail("has sums over the rows of a as output 1, which needs transpose_a");
  input_of_rank(op, 0, "a", 2);
  expect_output(op, 1, "d", dtype, {s.m});
}

Shape check(const Operation& op, rt_dtype dtype) {
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
  check_row_sums(op, s, dtype);
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

// a is [K, M].
template <typename T>
void sum_rows(const Shape& s, const T* a, T* d) {
  for (int64_t j = 0; j < s.m; ++j) {
    double sum = 0;
    for (int64_t row = 0; row < s.k; ++row) sum += static_cast<double>(a[row * s.m + j]);
    d[j] = static_cast<T>(sum);
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
      if (s.sums_rows) sum_rows(s, b.input<T>(0), b.output<T>(1));
    };
    return kernel;
  });
}

}  // namespace backends::reference
