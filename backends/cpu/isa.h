// The instruction sets that our own kernels are compiled for, chosen when a device is opened.
#ifndef BACKENDS_CPU_ISA_H_
#define BACKENDS_CPU_ISA_H_

#include <cstdint>
#include <vector>

namespace backends::cpu {

// Each includes the ones before it. The instruction set of the whole project (SSE2 on x86-64),
// x86-64-v3 and x86-64-v4.
enum class Isa : int32_t { kGeneric, kAvx2, kAvx512 };
inline constexpr Isa kIsas[] = {Isa::kAvx512, Isa::kAvx2, Isa::kGeneric};

// "generic", "avx2" or "avx512", as implementations are named.
const char* kernel_suffix(Isa isa);

// As [device.cpu] isa names it: "sse41", "avx2" or "avx512". oneDNN starts at SSE4.1.
const char* option_name(Isa isa);

// The widest that this processor, and the operating system, can run.
Isa widest_isa();
// All that it can run, widest first.
std::vector<Isa> usable_isas();

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_ISA_H_
