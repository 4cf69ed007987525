// What the kernels of attention work on: operands, the rows of one head, blocks of the result.
#ifndef BACKENDS_GPU_ATTENTION_OPERANDS_H_
#define BACKENDS_GPU_ATTENTION_OPERANDS_H_

#include <optional>

#include "backends/gpu/attention.h"
#include "backends/gpu/device_code.h"

namespace backends::gpu {

// The rows of an operand of one head: row i begins at data + i * step. T may be const.
template <typename T>
struct HeadRows {
  T* data;
  int64_t step;
};

template <typename T>
struct AttentionOperands {
  using C = Compute<T>;
  AttentionShape s;
  C scale;                // of the scores: 1 / sqrt(d)
  bool by_vector;         // do the 16-byte parts of a row begin at multiples of 16 bytes?
  const T *qkv, *y, *dy;  // y and dy: of the backward operation
  T* result;              // y or dqkv
  C *log_sums, *delta;    // [n, heads, t]

  GPU_DEVICE int length() const { return static_cast<int>(s.t); }
  // Rows of the head `line` = sample * heads + head: of part 0, 1 or 2 (q, k, v) of qkv or its
  // gradient, and of y or its gradient.
  template <typename U>
  GPU_DEVICE HeadRows<U> part_of(U* of, int64_t line, int64_t part) const {
    const int64_t c = s.c(), first = line / s.heads * s.t * 3 * c;
    return {of + first + part * c + line % s.heads * s.d, 3 * c};
  }
  template <typename U>
  GPU_DEVICE HeadRows<U> rows_of(U* of, int64_t line) const {
    const int64_t c = s.c();
    return {of + line / s.heads * s.t * c + line % s.heads * s.d, c};
  }
};

// Queue the kernels that compute y, dq, and dk with dv.
template <typename T>
struct AttentionLaunches {
  using Queue = void (*)(const Launch&, const AttentionOperands<T>&);
  Queue forward, query_gradient, key_gradient;
  int64_t
      times;  // how often the kernels compute the products that sum over columns, for wide heads
};

// For heads of d columns, any number. The products are sums in the threads' registers.
template <typename T>
AttentionLaunches<T> fma_attention(int64_t d);
// For heads of d columns by tensor cores; T is a 16-bit type. Empty for wider heads than
// kMostTensorColumns and in builds for devices without these instructions.
template <typename T>
std::optional<AttentionLaunches<T>> mma_attention(int64_t d);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ATTENTION_OPERANDS_H_
