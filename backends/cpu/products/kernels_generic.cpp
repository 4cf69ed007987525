// The instruction set that the whole project is compiled for; on x86-64 it has 16 registers of 4
// floats.
#include <utility>

#include "backends/cpu/products/kernels.h"

namespace backends::cpu::products {
namespace {
#define LANES 4
constexpr int kRows = 4, kVectors = 2;
// kernels.inc uses names of registers.inc.
// clang-format off
#include "backends/cpu/products/registers.inc"
#include "backends/cpu/products/kernels.inc"
// clang-format on
}  // namespace

extern const KernelTable kGenericKernels;
const KernelTable kGenericKernels = {"generic", kRows,      kColumns,  1,       sizeof(float),
                                     128,       256,        256,       nullptr, nullptr,
                                     pack_left, pack_right, multiply<>};

}  // namespace backends::cpu::products
