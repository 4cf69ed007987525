// Stands in for the GPU kernels where only the vendor's libraries are tested.
#include <iterator>

#include "backends/gpu/plan.h"

namespace backends::gpu {
namespace {

Kernel refuse(const Properties&, const Operation& op) {
  throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                       std::string(op.name()) + ": the test double has no kernels");
}

// Operations that only the vendor's libraries can compute here, because the plugin's own kernels
// refuse.
constexpr Entry kProducts[] = {{RT_OP_MATMUL, refuse, kFuses},
                               {RT_OP_CONV2D, refuse, kFuses},
                               {RT_OP_CONV2D_BACKWARD_DATA, refuse, kFuses},
                               {RT_OP_CONV2D_BACKWARD_WEIGHTS, refuse}};
constexpr Entry kAttention[] = {{RT_OP_ATTENTION, refuse},
                                {RT_OP_ATTENTION_BACKWARD, refuse},
                                {RT_OP_DOT_PRODUCT_ATTENTION, refuse},
                                {RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD, refuse}};

}  // namespace

Family elementwise_family() { return {}; }
Family gate_family() { return {}; }
Family reduction_family() { return {}; }
Family loss_family() { return {}; }
Family normalisation_family() { return {}; }
Family product_family() { return {kProducts, std::size(kProducts)}; }
Family pooling_family() { return {}; }
Family attention_family() { return {kAttention, std::size(kAttention)}; }
Family movement_family() { return {}; }
Family optimizer_family() { return {}; }

}  // namespace backends::gpu
