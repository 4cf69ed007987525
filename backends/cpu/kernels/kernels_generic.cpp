// For the processor that the whole project is built for; SSE2 on x86.
#include "backends/cpu/kernels/includes.h"

namespace backends::cpu::kernels {
namespace {
#include "backends/cpu/kernels/kernels.inc"
}  // namespace

extern const Table kGenericKernels;
const Table kGenericKernels = kTable;

}  // namespace backends::cpu::kernels
