// The shape of attention and what its products cost, for our own kernels and the vendor's.
#ifndef BACKENDS_GPU_ATTENTION_H_
#define BACKENDS_GPU_ATTENTION_H_

#include <algorithm>

#include "backends/gpu/plan.h"

namespace backends::gpu {

// Where our own kernels have tensor cores (16-bit types on NVIDIA's devices), they use them for
// heads of at most this many columns.
inline constexpr int64_t kMostTensorColumns = 128;

// q is [n, t, heads * d], k [n, keys, key_heads * d], v [n, keys, key_heads * e] and y [n, t, heads
// * e]. Of the packed form, qkv is [n, t, 3 c] and y [n, t, c] with c = heads * d.
struct AttentionShape {
  int64_t n, t, heads, d;
  bool causal;
  int64_t keys, key_heads, e;
  int64_t window = 0;  // 0: no limit
  GPU_BOTH int64_t c() const { return heads * d; }
  GPU_BOTH int64_t rows() const { return n * heads * t; }
  // The number of query heads that share a key head.
  GPU_BOTH int64_t group() const { return heads / key_heads; }
  // The own key of query i is number i + shift().
  GPU_BOTH int64_t shift() const { return keys - t; }
  // Pairs of a query and a key that it sees, as far as `causal` and the window say.
  double pairs() const {
    const auto queries = static_cast<double>(rows());
    if (!causal) return queries * static_cast<double>(keys);
    const auto most = static_cast<double>(keys),
               least = static_cast<double>(keys > t ? keys - t + 1 : 1);
    const double seen = (most + least) / 2 * (keys < t ? most / static_cast<double>(t) : 1);
    return queries * (window > 0 ? std::min(seen, static_cast<double>(window)) : seen);
  }
  // Floating-point operations of one product over the pairs of a query and a key that it sees.
  double product_flops() const { return 2.0 * pairs() * static_cast<double>(d + e) / 2; }
};

inline AttentionShape attention_shape(const Operation& op) {
  const rt_tensor_desc& qkv = op.input(op.is(RT_OP_ATTENTION_BACKWARD) ? 1 : 0);
  const int64_t heads = op.integer(RT_ATTR_HEADS), d = qkv.dims[2] / (3 * heads);
  return {qkv.dims[0], qkv.dims[1], heads, d, op.integer(RT_ATTR_CAUSAL, 0) != 0,
          qkv.dims[1], heads,       d};
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ATTENTION_H_
