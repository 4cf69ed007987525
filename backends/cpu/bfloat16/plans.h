// Operations in bfloat16 by kernels of their own, which need no float32 copies of whole operands.
// The operands of `op` are canonical and fit. Both functions throw rt::sdk::Error.
#ifndef BACKENDS_CPU_BFLOAT16_PLANS_H_
#define BACKENDS_CPU_BFLOAT16_PLANS_H_

#include <memory>

#include "backends/cpu/native.h"

namespace backends::cpu {

// The plans of operations on arrays of elements, whose kernels widen a few elements at a time,
// compute in float32 within the first-level cache, and round the results. nullptr for another
// operation, and for broadcasts other than those of the last dimensions of an operand.
std::unique_ptr<Plan> make_bfloat16_flat(const NativeContext& context, const Operation& op);
// The plans of attention and its gradient; nullptr for another operation, without a matrix unit,
// and for sequences that are too long.
std::unique_ptr<Plan> make_bfloat16_attention(const NativeContext& context, const Operation& op);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_BFLOAT16_PLANS_H_
