// Attention of a whole batch over the threads of the device's team. Every row of the result is made
// by one thread in a fixed order, so the result has the same bits for any number of threads.
#ifndef BACKENDS_CPU_ATTENTION_ATTENTION_H_
#define BACKENDS_CPU_ATTENTION_ATTENTION_H_

#include <cstdint>

#include "backends/cpu/attention/kernels.h"
#include "backends/cpu/isa.h"
#include "rt/sdk/attention.h"

namespace backends::cpu::attention {

using Shape = rt::sdk::DotProductAttention;

// An operand [samples][rows][heads][columns of a head]: one row of all heads begins `step` floats
// behind the one before. T may be const.
template <typename T>
struct Operand {
  T* data;
  int64_t step;
};

// Operands of both directions. Those of no use to the shape are nullptr.
struct Inputs {
  Operand<const float> q, k, v;
  const int64_t *step = nullptr, *base = nullptr;  // of dropout
  const int32_t* documents = nullptr;
};

// The operands and results of backward. y is the result of forward.
struct BackwardOperands {
  Operand<const float> dy, y;
  Operand<float> dq, dk, dv;
};

// Attention of one shape. Immutable: forward and backward may run in several threads at once with
// different buffers and allocate nothing. Workspaces are aligned to 64 bytes.
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
  void forward(const Inputs& inputs, Operand<float> y, float* saved, float* workspace) const;
  // Writes the gradients, given the operands and results of forward.
  void backward(const Inputs& inputs, const BackwardOperands& operands, const float* saved,
                float* workspace) const;

 private:
  Head head(const Inputs& inputs, float* saved, int64_t index) const;
  Dropout dropout(const Inputs& inputs, int64_t sample, int64_t head) const;
  template <typename T>
  Rows<T> query_rows(Operand<T> of, int64_t index, int64_t width) const;
  template <typename T>
  Rows<T> key_rows(Operand<T> of, int64_t index, int64_t width) const;
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
