// AVX2 has 16 registers of 8 floats: 12 accumulators, two vectors of the right operand and one of
// the left.
#include <utility>

#include "backends/cpu/products/kernels.h"

namespace backends::cpu::products {
namespace {
#define LANES 8
constexpr int kRows = 6, kVectors = 2;
// kernels.inc uses names of registers.inc.
// clang-format off
#include "backends/cpu/products/registers.inc"
#include "backends/cpu/products/kernels.inc"
// clang-format on
}  // namespace

extern const KernelTable kAvx2Kernels;
const KernelTable kAvx2Kernels = {"avx2",    kRows,      kColumns,  1,       sizeof(float),
                                  192,       256,        256,       nullptr, nullptr,
                                  pack_left, pack_right, multiply<>};

}  // namespace backends::cpu::products
