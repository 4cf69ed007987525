// Attention of a whole batch over OpenMP threads. Every row of the result is made by one thread in
// a fixed order, so the result has the same bits for any number of threads.
#ifndef BACKENDS_CPU_ATTENTION_ATTENTION_H_
#define BACKENDS_CPU_ATTENTION_ATTENTION_H_

#include <cstdint>

#include "backends/cpu/attention/kernels.h"
#include "backends/cpu/isa.h"

namespace backends::cpu::attention {

// The operands are qkv [samples][length][3 * heads * width] and y [samples][length][heads * width].
struct Shape {
  int64_t samples, length, heads, width;
  bool causal;
};

// Attention of one shape. Immutable: forward and backward may run in several threads at once with
// different buffers and allocate nothing. All buffers are aligned to 64 bytes.
class Attention {
 public:
  // `threads` >= 1. `kernels` outlives this object.
  Attention(const Shape& shape, int threads, const KernelTable& kernels)
      : shape_(shape), threads_(threads), kernels_(&kernels) {}

  // Bytes of the buffers that forward and backward take.
  uint64_t saved_bytes() const;
  uint64_t forward_workspace_bytes() const;
  uint64_t backward_workspace_bytes() const;

  // Writes y, and to `saved` what backward needs: two floats per row and head.
  void forward(const float* qkv, float* y, float* saved, float* workspace) const;
  // Writes the gradient dqkv of qkv, given the gradient dy of y and the operands and results of
  // forward.
  void backward(const float* dy, const float* qkv, const float* y, const float* saved, float* dqkv,
                float* workspace) const;

 private:
  Head head(const float* qkv, float* saved, int64_t index) const;
  template <typename T>
  Rows<T> features_of(T* y, int64_t index) const;
  template <typename T>
  Rows<T> part_of(T* qkv, int64_t index, int64_t part) const;
  int64_t grain(double products) const;

  Shape shape_;
  int threads_;
  const KernelTable* kernels_;
};

// The kernels compiled for `isa`, which this processor must have. The table lives as long as the
// process.
const KernelTable& kernels_for(Isa isa);

}  // namespace backends::cpu::attention

#endif  // BACKENDS_CPU_ATTENTION_ATTENTION_H_
