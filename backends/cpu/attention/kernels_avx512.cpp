// AVX-512 has 32 registers of 16 floats, so tiles are 6 x 4.
#include <utility>

#include "backends/cpu/attention/kernels.h"

namespace backends::cpu::attention {
namespace {
#define LANES 16
#include "backends/cpu/attention/kernels.inc"
}  // namespace

extern const KernelTable kAvx512Kernels;
const KernelTable kAvx512Kernels = {"avx512", forward, backward};

}  // namespace backends::cpu::attention
