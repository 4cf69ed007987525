// Translates a matmul into the column-major terms of BLAS, with the epilogue that a library may
// fuse.
#include "backends/gpu/gemm.h"

#include <algorithm>
#include <limits>

#include "backends/gpu/row_layout.h"
#include "rt/sdk/post_ops.h"

namespace backends::gpu {
namespace {

// The row-major matrices [rows, columns] of `tensor` as BLAS sees them; each begins one matrix of
// the tensor behind the one before, unless all are the same.
ColumnMajor transposed(const rt_tensor_desc& tensor, int64_t rows, int64_t columns,
                       bool one = false) {
  const int64_t stride = row_stride(tensor);
  return {columns, rows, stride, one ? 0 : rows * stride};
}

// The libraries compute a gelu with an approximate tanh: in float64 it is right to 10 digits, and
// in float32 it gives 0 where the result is small but not 0. For results in 16 bits it is exact
// enough.
bool takes_gelu(const Gemm& gemm) {
  return gemm.result == RT_FLOAT16 || gemm.result == RT_BFLOAT16;
}

// The libraries read and write the operand of a gelu only if its columns and matrices begin at
// multiples of 8 elements ("Leading dimension for epilogue auxiliary buffer", cublasLt.h), and by
// 16 bytes at a time, at which all buffers of this contract begin.
bool takes_gelu_operand(const Gemm& gemm) {
  return takes_gelu(gemm) && gemm.aux.ld % 8 == 0 && gemm.aux.batch_stride % 8 == 0;
}

bool is_gelu_tanh(const rt_post_op& post, int32_t kind) {
  return post.kind == kind && post.function == RT_ACTIVATION_GELU_TANH;
}

bool take_once(int32_t& taken, int32_t operand) {
  if (taken >= 0) return false;
  taken = operand;
  return true;
}

// Adds the next post-operations to `gemm` if an epilogue of the library gives the same result: bias
// and residual in any order, each at most once, then gelu_tanh, in front of which the library may
// store; or the gradient of gelu_tanh alone. The ReLU of some of cuBLASLt's algorithms turns NaN
// into 0, so it is not used. Returns how many were added.
uint32_t take(Gemm& gemm, const Operation& op, uint32_t most) {
  const rt_post_op& post = op.post_op(gemm.fused);
  if (gemm.gelu || gemm.gelu_gradient >= 0) return 0;
  if (post.kind == RT_POST_BIAS) return take_once(gemm.bias, post.operand) ? 1 : 0;
  if (post.kind == RT_POST_RESIDUAL_ADD) return take_once(gemm.residual, post.operand) ? 1 : 0;
  if (is_gelu_tanh(post, RT_POST_ACTIVATION_BACKWARD)) {
    if (gemm.fused > 0 || !takes_gelu_operand(gemm)) return 0;
    gemm.gelu_gradient = post.operand;
    return 1;
  }
  if (post.kind == RT_POST_STORE) {
    const bool gelu = gemm.fused + 1 < most &&
                      is_gelu_tanh(op.post_op(gemm.fused + 1), RT_POST_ACTIVATION) &&
                      takes_gelu_operand(gemm);
    if (!gelu) return 0;
    gemm.stored = static_cast<int32_t>(op.output_count()) - 1;
    gemm.gelu = true;
    return 2;
  }
  if (!is_gelu_tanh(post, RT_POST_ACTIVATION) || !takes_gelu(gemm)) return 0;
  gemm.gelu = true;
  return 1;
}

void take_all(Gemm& gemm, const Operation& op, uint32_t most) {
  while (gemm.fused < most) {
    const uint32_t taken = take(gemm, op, most);
    if (taken == 0) break;
    gemm.fused += taken;
  }
  const bool plain = gemm.bias < 0 && !gemm.gelu && gemm.gelu_gradient < 0;
  if (plain && rt::sdk::own_output_count(op) > 1) gemm.row_sums = 1;
}

int64_t bytes_of_element(rt_dtype dtype) {
  return static_cast<int64_t>(rt::sdk::dtype_bytes(dtype));
}

bool has_aligned_columns(const Gemm& gemm) {
  const int64_t in = bytes_of_element(gemm.dtype), out = bytes_of_element(gemm.result);
  return gemm.left.ld * in % kRowAlignment == 0 && gemm.right.ld * in % kRowAlignment == 0 &&
         gemm.d.ld * out % kRowAlignment == 0;
}

// A part of a product: its rows, columns, terms or products from `begin` on.
using Part = Gemm (*)(Gemm gemm, int64_t begin, int64_t size);

// Rows m.
Gemm rows_of(Gemm gemm, int64_t begin, int64_t rows) {
  gemm.m = gemm.d.rows = rows;
  (gemm.transpose_left ? gemm.left.columns : gemm.left.rows) = rows;
  gemm.left_begin += gemm.transpose_left ? begin * gemm.left.ld : begin;
  gemm.d_begin += begin;
  return gemm;
}
// Columns n.
Gemm columns_of(Gemm gemm, int64_t begin, int64_t columns) {
  gemm.n = gemm.d.columns = columns;
  (gemm.transpose_right ? gemm.right.rows : gemm.right.columns) = columns;
  gemm.right_begin += gemm.transpose_right ? begin : begin * gemm.right.ld;
  gemm.d_begin += begin * gemm.d.ld;
  return gemm;
}
// Terms k of the sums.
Gemm terms_of(Gemm gemm, int64_t begin, int64_t terms) {
  gemm.k = terms;
  (gemm.transpose_left ? gemm.left.rows : gemm.left.columns) = terms;
  (gemm.transpose_right ? gemm.right.columns : gemm.right.rows) = terms;
  gemm.left_begin += gemm.transpose_left ? begin : begin * gemm.left.ld;
  gemm.right_begin += gemm.transpose_right ? begin * gemm.right.ld : begin;
  gemm.adds = gemm.adds || begin > 0;
  return gemm;
}
// Products of the batch.
Gemm products_of(Gemm gemm, int64_t begin, int64_t products) {
  gemm.batch = static_cast<int32_t>(products);
  gemm.left_begin += begin * gemm.left.batch_stride;
  gemm.right_begin += begin * gemm.right.batch_stride;
  gemm.d_begin += begin * gemm.d.batch_stride;
  return gemm;
}

// Elements from the first one of a matrix to the last one of the last matrix of a batch.
int64_t reach_of(const ColumnMajor& x, int64_t batch) {
  return (batch - 1) * x.batch_stride + (x.columns - 1) * x.ld + x.rows;
}

// How a product is divided so that one of its matrices reaches less far: `size` of what `part`
// takes, of which each one makes the matrix reach `each` elements further. Null: not at all.
struct Cut {
  Part part = nullptr;
  int64_t size = 0, each = 0;
};
Cut cut_of(const Gemm& gemm, int64_t most) {
  const auto cut = [&](const ColumnMajor& x, Part part, int64_t size) -> Cut {
    if (reach_of(x, gemm.batch) <= most) return {};
    if (gemm.batch > 1 && x.batch_stride > 0) return {products_of, gemm.batch, x.batch_stride};
    return {part, size, x.ld};
  };
  const Cut cuts[] = {
      cut(gemm.d, columns_of, gemm.n),
      gemm.transpose_right ? cut(gemm.right, terms_of, gemm.k)
                           : cut(gemm.right, columns_of, gemm.n),
      gemm.transpose_left ? cut(gemm.left, rows_of, gemm.m) : cut(gemm.left, terms_of, gemm.k)};
  for (const Cut& needed : cuts) {
    if (needed.part != nullptr) return needed;
  }
  return {};
}

// Appends the parts of a product to `parts`; returns false if it cannot be divided.
bool divide(const Gemm& gemm, int64_t most, std::vector<Gemm>& parts) {
  const Cut cut = cut_of(gemm, most);
  if (cut.part == nullptr) return parts.push_back(gemm), true;
  if (cut.part == terms_of && gemm.result == RT_FLOAT16) return false;
  // A part of rows, columns or terms begins at a multiple of as many elements as kRowAlignment has
  // bytes, and so at one of kRowAlignment. A product of a batch may have to be divided further.
  const bool whole = cut.part == products_of;
  const int64_t unit = whole ? 1 : kRowAlignment;
  const int64_t largest = std::max<int64_t>(most / cut.each / unit * unit, whole ? 1 : 0);
  if (largest == 0) return false;
  const int64_t count = (cut.size + largest - 1) / largest;
  const int64_t share = ((cut.size + count - 1) / count + unit - 1) / unit * unit;
  for (int64_t begin = 0; begin < cut.size; begin += share) {
    const Gemm part = cut.part(gemm, begin, std::min(share, cut.size - begin));
    if (!divide(part, most, parts)) return false;
  }
  return true;
}

}  // namespace

std::vector<Gemm> aligned_parts(const Gemm& gemm) {
  if (gemm.fused > 0 || gemm.row_sums >= 0 || !has_aligned_columns(gemm)) return {};
  const auto unit_of = [](rt_dtype dtype) { return kRowAlignment / bytes_of_element(dtype); };
  const int64_t in = unit_of(gemm.dtype), out = unit_of(gemm.result);
  const auto split = [&](Part part, int64_t size, int64_t unit) {
    const int64_t large = size / unit * unit;
    if (large == 0 || large == size) return std::vector<Gemm>();
    return std::vector<Gemm>{part(gemm, 0, large), part(gemm, large, size - large)};
  };
  // m is a column of d, and of left if left is not transposed.
  std::vector<Gemm> parts = split(rows_of, gemm.m, gemm.transpose_left ? out : std::max(in, out));
  const bool k_is_a_column = gemm.transpose_left || !gemm.transpose_right;
  if (parts.empty() && k_is_a_column && gemm.result != RT_FLOAT16)
    parts = split(terms_of, gemm.k, in);
  if (parts.empty() && gemm.transpose_right) parts = split(columns_of, gemm.n, in);
  return parts;
}

std::vector<Gemm> counted_parts(const Gemm& gemm, int64_t most) {
  std::vector<Gemm> parts;
  if (cut_of(gemm, most).part == nullptr) return {gemm};
  if (gemm.fused > 0 || gemm.row_sums >= 0 || !divide(gemm, most, parts)) return {};
  return parts;
}

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
  gemm.result = op.output(0).dtype;
  gemm.m = n, gemm.n = m, gemm.k = k, gemm.batch = static_cast<int32_t>(batch);
  const bool one_b = b.rank == 2;
  gemm.left = tb ? transposed(b, n, k, one_b) : transposed(b, k, n, one_b);
  gemm.right = ta ? transposed(a, k, m) : transposed(a, m, k);
  gemm.d = gemm.aux = transposed(op.output(0), m, n);
  gemm.transpose_left = tb;
  gemm.transpose_right = ta;
  take_all(gemm, op, std::min(most_fused, op.post_op_count()));
  return gemm;
}

}  // namespace backends::gpu
