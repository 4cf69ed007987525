// The provider of products and convolutions whose weights were packed for the matrix unit.
#ifndef BACKENDS_CPU_PRODUCTS_PACKED_PROVIDER_H_
#define BACKENDS_CPU_PRODUCTS_PACKED_PROVIDER_H_

#include "backends/cpu/engine.h"
#include "backends/cpu/products/image_product.h"
#include "backends/cpu/provider.h"

namespace backends::cpu {

// Where the processor has a matrix unit (`Engine::bf16x3`), this provider offers `matmul` without a
// transposed a and with a two-dimensional b, and `conv2d` without groups: all operands are
// canonical but b or the weights, which have one of this provider's two layouts, and any
// post-operations are fused. `copy` makes these layouts from canonical weights; nothing makes
// canonical weights of them.
class PackedProvider : public Provider {
 public:
  explicit PackedProvider(const Engine& engine);

  Answer query(const Operation& op) override;
  std::unique_ptr<Plan> create(const Operation& op, uint32_t algorithm) override;
  std::optional<uint64_t> layout_bytes(const rt_tensor_desc& tensor) const override;
  std::optional<std::string> layout_name(const rt_tensor_desc& tensor) const override;

 private:
  const Engine& engine_;
  const products::SplitKernels* kernels_ = nullptr;  // null: nothing is offered
};

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_PRODUCTS_PACKED_PROVIDER_H_
