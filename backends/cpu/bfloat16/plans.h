// Operations in bfloat16 whose kernels widen a few elements at a time, compute in float32 within
// the first-level cache, and round the results.
#ifndef BACKENDS_CPU_BFLOAT16_PLANS_H_
#define BACKENDS_CPU_BFLOAT16_PLANS_H_

#include <memory>

#include "backends/cpu/native.h"

namespace backends::cpu {

// The plan of `op`, whose operands are canonical and fit; nullptr if there is no kernel of this
// kind for it. Throws rt::sdk::Error.
std::unique_ptr<Plan> make_bfloat16_plan(const NativeContext& context, const Operation& op);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_BFLOAT16_PLANS_H_
