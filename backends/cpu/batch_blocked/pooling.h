// Average and max pooling and their gradients in the batch-blocked layout.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_POOLING_H_
#define BACKENDS_CPU_BATCH_BLOCKED_POOLING_H_

#include "backends/cpu/batch_blocked/shapes.h"

namespace backends::cpu::batch_blocked {

// Which pooling a Pooling object computes.
enum class PoolKind { kAverage, kMax };

// A pooling of one shape. Immutable: forward and backward may be called in several threads at once
// with different buffers, and allocate nothing.
class Pooling {
 public:
  // `threads` >= 1. `kernels` outlives this object.
  Pooling(const PoolShape& shape, PoolKind kind, int threads, const KernelTable& kernels);

  // False for an average with padding that its divisor does not count: its gradient is not offered.
  static bool supports_backward(const PoolShape& shape, PoolKind kind);

  // Images are in the blocked layout. For max, `saved` holds the positions of the winners in
  // canonical order [N,P,Q,C]; forward takes null as well.
  void forward(const float* x, float* y, uint8_t* saved, const PostOps& post) const;
  void backward(const float* dy, const uint8_t* saved, float* dx, const PostOps& post) const;

 private:
  struct Span;
  Span window(int64_t out, int64_t in, int64_t k, int64_t stride, int64_t pad) const;
  Span gradients(int64_t at, int64_t outs, int64_t k, int64_t stride, int64_t pad) const;
  void forward_row(const float* x, float* y, uint8_t* saved, const PostOps& post, int64_t block,
                   int64_t p) const;
  void average_backward_row(const float* dy, float* dx, const PostOps& post, int64_t block,
                            int64_t h) const;
  void max_backward_block(const float* dy, const uint8_t* saved, float* dx, const PostOps& post,
                          int64_t block) const;
  PoolWindow max_window(int64_t block, const Span& rows, const Span& columns, int64_t p, int64_t q,
                        uint8_t* saved) const;

  PoolShape shape_;
  PoolKind kind_;
  int threads_;
  const KernelTable* kernels_;
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_POOLING_H_
