// Operands of kernels for float32 that are stored in float32 or in bfloat16.
#ifndef BACKENDS_CPU_BFLOAT16_OPERAND_H_
#define BACKENDS_CPU_BFLOAT16_OPERAND_H_

#include <cstdint>

#include "backends/cpu/kernels/table.h"
#include "backends/cpu/post_chain.h"
#include "backends/cpu/provider.h"

namespace backends::cpu {

// An input or output of a launch, of which a kernel reads or writes a few elements at a time. If it
// is in bfloat16, these are in a buffer of the caller.
class Operand {
 public:
  Operand(const kernels::Table& kernel, const void* data, bool narrow)
      : kernel_(&kernel), data_(const_cast<void*>(data)), narrow_(narrow) {}

  // Elements offset .. offset + count: where they are, or widened in `buffer`.
  const float* read(int64_t offset, int64_t count, float* buffer) const {
    if (!narrow_) return static_cast<const float*>(data_) + offset;
    kernel_->widen(static_cast<const uint16_t*>(data_) + offset, buffer, count);
    return buffer;
  }
  // Where a kernel writes elements from `offset` on: the operand itself, or `buffer`. Afterwards,
  // call written().
  float* write(int64_t offset, float* buffer) const {
    return narrow_ ? buffer : static_cast<float*>(data_) + offset;
  }
  // Applies `chain` to the elements that were written, and rounds those of a buffer into the
  // operand, which is output 0 if there is a chain.
  void written(int64_t offset, int64_t count, float* values, const PostChain& chain,
               const void* const* inputs) const {
    if (!narrow_) return chain.apply(*kernel_, values, offset, count, inputs);
    chain.apply_to_wide(*kernel_, values, offset, count, inputs);
    kernel_->narrow(values, static_cast<uint16_t*>(data_) + offset, count);
  }

 private:
  const kernels::Table* kernel_;
  void* data_;
  bool narrow_;
};

// Whether the first input is in bfloat16; the other activations of an operation then are too.
inline bool is_narrow(const Operation& op) { return op.input(0).dtype == RT_BFLOAT16; }

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_BFLOAT16_OPERAND_H_
