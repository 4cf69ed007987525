// oneDNN has one instruction set for the whole process, which is fixed when oneDNN is first used.
#ifndef BACKENDS_CPU_ONEDNN_ISA_H_
#define BACKENDS_CPU_ONEDNN_ISA_H_

#include <optional>

#include "backends/cpu/isa.h"

namespace backends::cpu {

// Makes oneDNN use no wider instruction set than `limit`, where kGeneric stands for SSE4.1. If
// `limit` is empty, oneDNN uses all that the processor has, limited only by the environment
// variable ONEDNN_MAX_CPU_ISA. Throws RT_ERROR_UNAVAILABLE if this process has already used oneDNN
// with another limit.
void limit_onednn(std::optional<Isa> limit);

// Whether oneDNN uses AVX512-BF16 in this process. Without it, oneDNN computes products in bfloat16
// by slower instructions. Call it after limit_onednn().
bool onednn_uses_bfloat16();

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_ONEDNN_ISA_H_
