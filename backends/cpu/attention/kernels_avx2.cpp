// AVX2 has 16 registers of 8 floats, so tiles are 6 x 2.
#include <utility>

#include "backends/cpu/attention/kernels.h"

namespace backends::cpu::attention {
namespace {
#define LANES 8
#include "backends/cpu/attention/kernels.inc"
}  // namespace

extern const KernelTable kAvx2Kernels;
const KernelTable kAvx2Kernels = {"avx2", forward, backward};

}  // namespace backends::cpu::attention
