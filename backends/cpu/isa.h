// The instruction sets that our own kernels are compiled for. One is chosen when a device is
// opened.
#ifndef BACKENDS_CPU_ISA_H_
#define BACKENDS_CPU_ISA_H_

#include <cstdint>
#include <vector>

namespace backends::cpu {

// The instruction set that the whole project is compiled for (SSE2 on x86-64), x86-64-v3 and
// x86-64-v4. Each includes the ones before it.
enum class Isa : int32_t { kGeneric, kAvx2, kAvx512 };
// All of them, widest first.
inline constexpr Isa kIsas[] = {Isa::kAvx512, Isa::kAvx2, Isa::kGeneric};

// "generic", "avx2" or "avx512": the suffix of implementation names.
const char* kernel_suffix(Isa isa);

// The value of [device.cpu] isa: "sse41" (for kGeneric, because oneDNN starts at SSE4.1), "avx2" or
// "avx512".
const char* option_name(Isa isa);

// The widest instruction set that this processor and the operating system can run.
Isa widest_isa();
// All instruction sets that this processor can run, widest first.
std::vector<Isa> usable_isas();

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_ISA_H_
