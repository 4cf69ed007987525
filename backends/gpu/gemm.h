// A matmul in the terms of BLAS, whose matrices are in column order. A matrix that is row-major
// [rows, columns] here is column-major [columns, rows] there. So the library computes the
// transposed result, c^T = b^T a^T: its left matrix is our b, and its right one our a.
#ifndef BACKENDS_GPU_GEMM_H_
#define BACKENDS_GPU_GEMM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/gpu/counted.h"
#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace backends::gpu {

using rt::sdk::Operation;

// A matrix in memory: element (r, c) of matrix i is at i * batch_stride + c * ld + r. All fields
// are in elements.
struct ColumnMajor {
  int64_t rows, columns, ld, batch_stride;
};

// d = f(op(left) op(right) + residual + bias), with sums in float32 (in float64 for float64). bias
// has one number for each row of d; residual is in memory like d.
struct Gemm {
  rt_dtype dtype;   // of left and right
  rt_dtype result;  // of everything else
  int64_t m, n, k;  // d is m x n
  int32_t batch;
  ColumnMajor left, right, d;
  bool transpose_left, transpose_right;
  // Inputs of the operation; -1: none.
  int32_t bias = -1, residual = -1;
  bool gelu = false;  // f ends with gelu_tanh
  // Input: d is the product times the derivative of gelu_tanh there; -1: it is not.
  int32_t gelu_gradient = -1;
  // Outputs of the operation; -1: none. `stored` receives what the gelu is applied to,
  // `row_sums` the sums of op(right) over k, one number for each column of d.
  int32_t stored = -1, row_sums = -1;
  ColumnMajor aux;     // the matrix of `gelu_gradient` or `stored`
  uint32_t fused = 0;  // number of post-operations that this includes, from the first
  // A part of a product begins at these elements of its matrices, and may add to d.
  int64_t left_begin = 0, right_begin = 0, d_begin = 0;
  bool adds = false;
};

// Describes the product with at most `most_fused` post-operations, and with the sums of rows that
// it has as second output if no post-operation but a residual stands in the way. Empty if there is
// nothing to multiply, or if a size exceeds what the libraries count with.
std::optional<Gemm> gemm_of(const Operation& matmul, uint32_t most_fused);

// Two products that together give the same result: a large one, of which one size (m, k or n) is a
// multiple of 16 bytes where it is the length of a matrix's columns, and a small one with the rest.
// cuBLAS is several times as fast for such columns ("cuBLAS", section "Tensor Core Usage"). If k is
// split, d is rounded once more between the two; in float16, where the first sum may overflow
// although the whole does not, k is not split. Empty if no size has to be split, if the distance
// between columns is no multiple of 16 bytes, or if the product has epilogues.
std::vector<Gemm> aligned_parts(const Gemm& gemm);

// Products that together give the same result, in each of which no matrix reaches over more than
// `most` elements of memory: the product itself if it is small enough. They are about equal, begin
// at multiples of 16 bytes, and are to be computed in their order. Where k is divided, d is rounded
// once more for each part, so in float16 k is not. Empty if the product cannot be divided, or if it
// has epilogues.
std::vector<Gemm> counted_parts(const Gemm& gemm, int64_t most = kMostCounted);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_GEMM_H_
