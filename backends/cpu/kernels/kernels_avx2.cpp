// x86-64-v3: 16 registers of 8 floats.
#include "backends/cpu/kernels/includes.h"

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
namespace backends::cpu::kernels {
namespace {
#include "backends/cpu/kernels/kernels.inc"
}  // namespace

extern const Table kAvx2Kernels;
const Table kAvx2Kernels = kTable;

}  // namespace backends::cpu::kernels
#pragma GCC pop_options
