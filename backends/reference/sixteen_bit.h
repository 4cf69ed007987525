// Operands in float16 and bfloat16 are stored in 16 bits and computed with in float32.
#ifndef BACKENDS_REFERENCE_SIXTEEN_BIT_H_
#define BACKENDS_REFERENCE_SIXTEEN_BIT_H_

#include "backends/reference/kernel.h"
#include "rt/sdk/definition.h"
#include "rt/sdk/float16.h"

namespace backends::reference {

// An element in 16 bits as a C++ type, for conversions. Both conversions round at most once.
template <uint16_t (*kNarrow)(float), float (*kWiden)(uint16_t)>
struct SixteenBits {
  uint16_t bits;
  SixteenBits() = default;
  explicit SixteenBits(double value) : bits(kNarrow(rt::sdk::round_to_odd(value))) {}
  // Implicit, because kernels for any type compute with elements in float.
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator float() const { return kWiden(bits); }
};
// The two types in 16 bits.
using Float16 = SixteenBits<rt::sdk::to_float16, rt::sdk::from_float16>;
using BFloat16 = SixteenBits<rt::sdk::to_bfloat16, rt::sdk::from_bfloat16>;

// Is any operand float16 or bfloat16?
bool has_sixteen_bit_operands(const rt::sdk::Operation& op);

// Makes the kernel for operands in 16 bits: it widens them into the workspace, runs the kernel on
// float32, and rounds each output once. `definition` is that of the operation and says which
// operands are float32 nevertheless. Saved data are those of the kernel on float32. Throws the
// errors of make_kernel.
Kernel make_sixteen_bit(const rt::sdk::Operation& op, const rt::sdk::Definition& definition);

// Throws the Refusal of an operation that has no 16-bit form.
[[noreturn]] void refuse_sixteen_bit(const rt::sdk::Operation& op);

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_SIXTEEN_BIT_H_
