// The whole of attention over OpenMP threads. Every row of the result is made by one thread in a
// fixed order: the same bits for any number of threads.
#ifndef BACKENDS_CPU_ATTENTION_ATTENTION_H_
#define BACKENDS_CPU_ATTENTION_ATTENTION_H_

#include <cstdint>

#include "backends/cpu/attention/kernels.h"
#include "backends/cpu/isa.h"

namespace backends::cpu::attention {

// qkv [samples][length][3 * heads * width], y [samples][length][heads * width].
struct Shape {
  int64_t samples, length, heads, width;
  bool causal;
};

// Immutable; may run in several threads at once with different buffers. All buffers are aligned to
// 64 bytes.
class Attention {
 public:
  // `threads` >= 1. `kernels` outlives this object.
  Attention(const Shape& shape, int threads, const KernelTable& kernels)
      : shape_(shape), threads_(threads), kernels_(&kernels) {}

  uint64_t saved_bytes() const;
  uint64_t forward_workspace_bytes() const;
  uint64_t backward_workspace_bytes() const;

  void forward(const float* qkv, float* y, float* saved, float* workspace) const;
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

// The kernels compiled for `isa`, which this processor must have; valid for ever.
const KernelTable& kernels_for(Isa isa);

}  // namespace backends::cpu::attention

#endif  // BACKENDS_CPU_ATTENTION_ATTENTION_H_
