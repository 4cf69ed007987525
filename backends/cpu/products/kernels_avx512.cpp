// AVX-512 has 32 registers of 16 floats: 28 accumulators, two vectors of the right operand and one
// of the left.
#include <utility>

#include "backends/cpu/products/kernels.h"

namespace backends::cpu::products {
namespace {
#define LANES 16
constexpr int kRows = 14, kVectors = 2;
// kernels.inc uses names of registers.inc.
// clang-format off
#include "backends/cpu/products/registers.inc"
#include "backends/cpu/products/kernels.inc"
// clang-format on
}  // namespace

extern const KernelTable kAvx512Kernels;
const KernelTable kAvx512Kernels = {"avx512",  kRows,      kColumns,  1,       sizeof(float),
                                    512,       512,        512,       nullptr, nullptr,
                                    pack_left, pack_right, multiply<>};

}  // namespace backends::cpu::products
