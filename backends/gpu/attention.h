// The shape of attention and what its products cost, for our own kernels and the vendor's.
#ifndef BACKENDS_GPU_ATTENTION_H_
#define BACKENDS_GPU_ATTENTION_H_

#include "backends/gpu/plan.h"

namespace backends::gpu {

// Where our own kernels have tensor cores (16-bit types on NVIDIA's devices), they use them for
// heads of at most this many columns.
inline constexpr int64_t kMostTensorColumns = 128;

// qkv is [n, t, 3 c] and y is [n, t, c] with c = heads * d.
struct AttentionShape {
  int64_t n, t, heads, d;
  bool causal;
  GPU_BOTH int64_t c() const { return heads * d; }
  GPU_BOTH int64_t rows() const { return n * heads * t; }
  // Floating-point operations of one product over the pairs of a query and a key that it sees.
  double product_flops() const {
    const auto keys = static_cast<double>(causal ? t + 1 : 2 * t) / 2;
    return 2.0 * static_cast<double>(rows()) * static_cast<double>(d) * keys;
  }
};

inline AttentionShape attention_shape(const Operation& op) {
  const rt_tensor_desc& qkv = op.input(op.is(RT_OP_ATTENTION_BACKWARD) ? 1 : 0);
  const int64_t heads = op.integer(RT_ATTR_HEADS);
  return {qkv.dims[0], qkv.dims[1], heads, qkv.dims[2] / (3 * heads),
          op.integer(RT_ATTR_CAUSAL, 0) != 0};
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ATTENTION_H_
