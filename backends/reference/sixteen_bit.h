// float16 and bfloat16: they store, and float32 computes.
#ifndef BACKENDS_REFERENCE_SIXTEEN_BIT_H_
#define BACKENDS_REFERENCE_SIXTEEN_BIT_H_

#include "backends/reference/kernel.h"
#include "rt/sdk/float16.h"

namespace backends::reference {

// An element as a C++ type, for conversions.
template <uint16_t (*kNarrow)(float), float (*kWiden)(uint16_t)>
struct SixteenBits {
  uint16_t bits;
  SixteenBits() = default;
  explicit SixteenBits(double value) : bits(kNarrow(rt::sdk::round_to_odd(value))) {}
  operator float() const { return kWiden(bits); }
};
using Float16 = SixteenBits<rt::sdk::to_float16, rt::sdk::from_float16>;
using BFloat16 = SixteenBits<rt::sdk::to_bfloat16, rt::sdk::from_bfloat16>;

// Whether any operand is float16 or bfloat16.
bool has_sixteen_bit_operands(const rt::sdk::Operation& op);

// The kernel for 16-bit operands: that on float32 over operands widened into the workspace, each
// output rounded once. Bit i of `wide_inputs` and `wide_outputs`: that floating operand is float32
// all the same. What is saved is what the kernel on float32 saves.
Kernel make_sixteen_bit(const rt::sdk::Operation& op, uint32_t wide_inputs, uint32_t wide_outputs);

// For operations without a 16-bit form.
[[noreturn]] void refuse_sixteen_bit(const rt::sdk::Operation& op);

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_SIXTEEN_BIT_H_
