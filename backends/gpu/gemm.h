// A matmul in the words of BLAS: matrices in column order. What is row-major [rows, columns] here
// is column-major [columns, rows] there, so the library makes the transposed result, c^T = b^T a^T:
// its left matrix is our b, its right one our a.
#ifndef BACKENDS_GPU_GEMM_H_
#define BACKENDS_GPU_GEMM_H_

#include <cstdint>
#include <optional>

#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace backends::gpu {

using rt::sdk::Operation;

// As it lies in memory: element (r, c) of matrix i at i * batch_stride + c * ld + r.
struct ColumnMajor {
  int64_t rows, columns, ld, batch_stride;
};

// d = f(op(left) op(right) + residual + bias), sums in float32 (float64 for it). bias has one
// number for each row of d; residual lies as d does.
struct Gemm {
  rt_dtype dtype;
  int64_t m, n, k;  // d is m x n
  int32_t batch;
  ColumnMajor left, right, d;
  bool transpose_left, transpose_right;
  // Inputs of the operation; -1: none.
  int32_t bias = -1, residual = -1;
  int32_t activation = 0;  // RT_ACTIVATION_RELU or _GELU_TANH; 0: none
  uint32_t fused = 0;      // post-operations that this does, from the first
};

// With at most `most_fused` post-operations. None if there is nothing to multiply, or more than a
// library counts.
std::optional<Gemm> gemm_of(const Operation& matmul, uint32_t most_fused);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_GEMM_H_
