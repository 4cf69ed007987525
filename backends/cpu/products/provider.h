// The provider of our own matrix products.
#ifndef BACKENDS_CPU_PRODUCTS_PROVIDER_H_
#define BACKENDS_CPU_PRODUCTS_PROVIDER_H_

#include "backends/cpu/engine.h"
#include "backends/cpu/products/kernels.h"
#include "backends/cpu/provider.h"

namespace backends::cpu {

// This provider offers `matmul` of canonical operands whose operand b has two dimensions, with any
// post-operations: once in float32 arithmetic, and once by the matrix unit (`Engine::bf16x3`).
class ProductProvider : public Provider {
 public:
  explicit ProductProvider(const Engine& engine);

  Answer query(const Operation& op) override;
  std::unique_ptr<Plan> create(const Operation& op, uint32_t algorithm) override;

 private:
  const Engine& engine_;
  const products::KernelTable* split_ = nullptr;  // null: not offered
};

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_PRODUCTS_PROVIDER_H_
