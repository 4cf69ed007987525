// AVX-512 has 32 registers of 16 floats. A tile of P x T takes P T accumulators, P inputs and one
// broadcast weight.
#include <utility>

#include "backends/cpu/batch_blocked/gradient_kernels.h"
#include "backends/cpu/batch_blocked/kernel_table.h"

namespace backends::cpu::batch_blocked {
namespace {
constexpr int kGradientOutputs = 14;
#define BB_LANES 16
#include "backends/cpu/batch_blocked/kernels.inc"

const ConvKernel kConv[] = {
    {8, 3, {conv_tile<1, 8>, conv_tile<2, 8>, conv_tile<3, 8>}},
    {6, 4, {conv_tile<1, 6>, conv_tile<2, 6>, conv_tile<3, 6>, conv_tile<4, 6>}},
    {5, 5, {conv_tile<1, 5>, conv_tile<2, 5>, conv_tile<3, 5>, conv_tile<4, 5>, conv_tile<5, 5>}},
    {4,
     6,
     {conv_tile<1, 4>, conv_tile<2, 4>, conv_tile<3, 4>, conv_tile<4, 4>, conv_tile<5, 4>,
      conv_tile<6, 4>}},
    {3,
     7,
     {conv_tile<1, 3>, conv_tile<2, 3>, conv_tile<3, 3>, conv_tile<4, 3>, conv_tile<5, 3>,
      conv_tile<6, 3>, conv_tile<7, 3>}},
};

const WeightKernel kWeights[] = {
    {5, 1, 5, 1, weight_tile<5, 1, 5, 1>, pooled_weight_tile<5, 1, 5, 1>},
    {2, 3, 3, 1, weight_tile<2, 3, 3, 1>, pooled_weight_tile<2, 3, 3, 1>},
    {8, 1, 3, 1, weight_tile<8, 1, 3, 1>, pooled_weight_tile<8, 1, 3, 1>},
    {4, 1, 3, 2, weight_tile<4, 1, 3, 2>, pooled_weight_tile<4, 1, 3, 2>},
    {5, 1, 1, 5, weight_tile<5, 1, 1, 5>, nullptr},
    {8, 1, 1, 3, weight_tile<8, 1, 1, 3>, nullptr},
    {4, 1, 1, 6, weight_tile<4, 1, 1, 6>, nullptr},
    {4, 1, 1, 4, weight_tile<4, 1, 1, 4>, nullptr},
    {8, 1, 1, 1, weight_tile<8, 1, 1, 1>, nullptr},
    {1, 1, 1, 8, weight_tile<1, 1, 1, 8>, nullptr},
    {2, 1, 1, 2, weight_tile<2, 1, 1, 2>, nullptr},
    {1, 1, 1, 1, weight_tile<1, 1, 1, 1>, nullptr},
};

const PooledConv kPooled[] = {
    {6, pooled_conv<6>},
    {5, pooled_conv<5>},
    {4, pooled_conv<4>},
    {3, pooled_conv<3>},
};

const PairKernel kPairs[] = {
    {5, 5, pair_tile<5, 5>}, {8, 3, pair_tile<8, 3>}, {4, 6, pair_tile<4, 6>},
    {4, 4, pair_tile<4, 4>}, {8, 1, pair_tile<8, 1>}, {1, 8, pair_tile<1, 8>},
    {2, 2, pair_tile<2, 2>}, {1, 1, pair_tile<1, 1>},
};

#include "backends/cpu/batch_blocked/kernel_table.inc"

}  // namespace

extern const KernelTable kAvx512Kernels;
const KernelTable kAvx512Kernels = kernel_table("avx512");

extern const GradientKernels kAvx512GradientKernels;
const GradientKernels kAvx512GradientKernels = gradient_kernels("avx512", 960, 8);

}  // namespace backends::cpu::batch_blocked
