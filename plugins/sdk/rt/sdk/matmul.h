// The sizes of matmul.
#ifndef RT_SDK_MATMUL_H_
#define RT_SDK_MATMUL_H_

#include "rt/sdk/expect.h"

namespace rt::sdk {

// c [batch, M, N] = a [batch, M, K] b [batch, K, N], each of a and b with its last two dims swapped
// if it is transposed. All leading dims are one, `batch`; without `b_has_batch` all products have
// the same b.
struct MatmulShape {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;  // whether a is stored [K, M], and b [N, K]
  bool b_has_batch;               // whether each product has a matrix b of its own
  bool sums_rows;  // output 1 holds the sums over the rows of a, which is stored [K, M]
};

// Checks the second output, if there is one.
inline void check_row_sums(const Operation& op, MatmulShape& s, rt_dtype dtype) {
  s.sums_rows = own_output_count(op) > 1;
  expect_counts(op, 2, s.sums_rows ? 2 : 1);
  if (!s.sums_rows) return;
  if (!s.transpose_a) op.fail("has sums over the rows of a as output 1, which needs transpose_a");
  input_of_rank(op, 0, "a", 2);
  expect_output(op, 1, "d", dtype, {s.m});
}

// Reads the sizes and checks the operands, which all have the type `dtype`. Throws the errors of
// rt/sdk/expect.h.
inline MatmulShape matmul_shape(const Operation& op, rt_dtype dtype) {
  const Dims a = dims_of(input_of_min_rank(op, 0, "a", 2));
  const Dims b = dims_of(input_of_min_rank(op, 1, "b", 2));
  MatmulShape s{};
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

}  // namespace rt::sdk

#endif  // RT_SDK_MATMUL_H_
