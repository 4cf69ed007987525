#include "backends/gpu/gemm.h"

#include <algorithm>
#include <limits>

namespace backends::gpu {
namespace {

// A row-major matrix [rows, columns] as BLAS sees it.
ColumnMajor transposed(int64_t rows, int64_t columns, int64_t batch_stride) {
  return {columns, rows, columns, batch_stride};
}

// Adds the next post-operation to `gemm` if the library's epilogue gives the same result: bias and
// residual in any order, each at most once, then the activation.
bool take(Gemm& gemm, const rt_post_op& post) {
  if (gemm.activation != 0) return false;
  if (post.kind == RT_POST_BIAS && gemm.bias < 0) {
    gemm.bias = post.operand;
    return true;
  }
  if (post.kind == RT_POST_RESIDUAL_ADD && gemm.residual < 0) {
    gemm.residual = post.operand;
    return true;
  }
  const bool known =
      post.function == RT_ACTIVATION_RELU || post.function == RT_ACTIVATION_GELU_TANH;
  if (post.kind != RT_POST_ACTIVATION || !known) return false;
  gemm.activation = post.function;
  return true;
}

}  // namespace

std::optional<Gemm> gemm_of(const Operation& op, uint32_t most_fused) {
  const rt_tensor_desc &a = op.input(0), &b = op.input(1);
  const bool ta = op.integer(RT_ATTR_TRANSPOSE_A, 0) != 0,
             tb = op.integer(RT_ATTR_TRANSPOSE_B, 0) != 0;
  const int64_t k = a.dims[a.rank - (ta ? 2 : 1)], n = b.dims[b.rank - (tb ? 2 : 1)];
  int64_t m = a.dims[a.rank - (ta ? 1 : 2)], batch = 1;
  for (int32_t i = 0; i + 2 < a.rank; ++i) batch *= a.dims[i];
  if (b.rank == 2 && !ta) {  // the rows of all matrices form one matrix
    m *= batch;
    batch = 1;
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (std::min({m, n, k, batch}) < 1 || std::max({m, n, k, batch}) > kMost) return {};

  Gemm gemm{};
  gemm.dtype = a.dtype;
  gemm.m = n, gemm.n = m, gemm.k = k, gemm.batch = static_cast<int32_t>(batch);
  const int64_t b_stride = b.rank > 2 ? k * n : 0;
  gemm.left = tb ? transposed(n, k, b_stride) : transposed(k, n, b_stride);
  gemm.right = ta ? transposed(k, m, m * k) : transposed(m, k, m * k);
  gemm.d = transposed(m, n, m * n);
  gemm.transpose_left = tb;
  gemm.transpose_right = ta;
  const uint32_t most = std::min(most_fused, op.post_op_count());
  while (gemm.fused < most && take(gemm, op.post_op(gemm.fused))) ++gemm.fused;
  return gemm;
}

}  // namespace backends::gpu
