// The instruction set that the whole project is compiled for; SSE2 on x86-64.
#include <utility>

#include "backends/cpu/attention/kernels.h"

namespace backends::cpu::attention {
namespace {
#define LANES 4
#include "backends/cpu/attention/kernels.inc"
}  // namespace

extern const KernelTable kGenericKernels;
const KernelTable kGenericKernels = {"generic", forward, backward};

}  // namespace backends::cpu::attention
