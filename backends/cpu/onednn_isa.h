// oneDNN's instruction set, which is one for the whole process and fixed when oneDNN is first used.
#ifndef BACKENDS_CPU_ONEDNN_ISA_H_
#define BACKENDS_CPU_ONEDNN_ISA_H_

#include <optional>

#include "backends/cpu/isa.h"

namespace backends::cpu {

// Makes oneDNN use no wider instructions than `limit`, SSE4.1 being its least; empty: all that the
// processor has, or what the variable ONEDNN_MAX_CPU_ISA of the environment leaves of it. Throws
// RT_ERROR_UNAVAILABLE if this process has already used oneDNN with another limit.
void limit_onednn(std::optional<Isa> limit);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_ONEDNN_ISA_H_
