// x86-64-v4: 32 registers of 16 floats.
#include "backends/cpu/kernels/includes.h"

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
namespace backends::cpu::kernels {
namespace {
#include "backends/cpu/kernels/kernels.inc"
}  // namespace

extern const Table kAvx512Kernels;
const Table kAvx512Kernels = kTable;

}  // namespace backends::cpu::kernels
#pragma GCC pop_options
