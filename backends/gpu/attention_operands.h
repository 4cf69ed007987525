// What the kernels of attention work on: operands, the rows of one head, blocks of the result.
#ifndef BACKENDS_GPU_ATTENTION_OPERANDS_H_
#define BACKENDS_GPU_ATTENTION_OPERANDS_H_

#include <optional>

#include "backends/gpu/attention.h"
#include "backends/gpu/attention_mask.h"
#include "backends/gpu/device_code.h"

namespace backends::gpu {

// The rows of an operand of one head: `count` rows of `columns` elements, of which row i begins at
// data + i * step. T may be const.
template <typename T>
struct HeadRows {
  T* data;
  int64_t step;
  int count, columns;
};

// An operand [samples][rows][heads][columns], whose row of all heads begins `step` elements behind
// the one before.
template <typename T>
struct HeadsOf {
  T* data;
  int64_t step;
  int rows, columns;
  GPU_DEVICE HeadRows<T> of(int64_t sample, int64_t head) const {
    return {data + sample * rows * step + head * columns, step, rows, columns};
  }
};

template <typename T>
struct AttentionOperands {
  using C = Compute<T>;
  AttentionShape s;
  C scale;                          // of the scores
  bool by_vector;                   // do the 16-byte parts of a row begin at multiples of 16 bytes?
  HeadsOf<const T> q, k, v, y, dy;  // y and dy: of the backward operation
  HeadsOf<T> result, dq, dk, dv;    // y; its gradients
  C *log_sums, *delta;              // [n, heads, t]
  AttentionMask mask;

  GPU_DEVICE int queries() const { return static_cast<int>(s.t); }
  GPU_DEVICE int keys() const { return static_cast<int>(s.keys); }
  // Rows of the head `line` = sample * heads + head of an operand of queries, and of the head of
  // keys that it reads.
  template <typename U>
  GPU_DEVICE HeadRows<U> queries_of(const HeadsOf<U>& of, int64_t line) const {
    return of.of(line / s.heads, line % s.heads);
  }
  template <typename U>
  GPU_DEVICE HeadRows<U> keys_of(const HeadsOf<U>& of, int64_t line) const {
    return of.of(line / s.heads, line % s.heads / s.group());
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

// For heads of d columns, any number. The products are sums in the threads' registers. `masked`:
// for windows, documents and dropout, which cost registers.
template <typename T>
AttentionLaunches<T> fma_attention(int64_t d, bool masked);
// For heads of d columns by tensor cores; T is a 16-bit type. Empty for wider heads than
// kMostTensorColumns and in builds for devices without these instructions.
template <typename T>
std::optional<AttentionLaunches<T>> mma_attention(int64_t d, bool masked);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ATTENTION_OPERANDS_H_
