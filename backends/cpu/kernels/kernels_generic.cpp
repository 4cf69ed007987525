// The instruction set that the whole project is compiled for; SSE2 on x86-64.
#include "backends/cpu/kernels/includes.h"

namespace backends::cpu::kernels {
namespace {
#include "backends/cpu/kernels/kernels.inc"
}  // namespace

extern const Table kGenericKernels;
const Table kGenericKernels = kTable;

}  // namespace backends::cpu::kernels
