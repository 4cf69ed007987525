// The provider of our own products of bfloat16 matrices.
#ifndef BACKENDS_CPU_BFLOAT16_PRODUCT_PROVIDER_H_
#define BACKENDS_CPU_BFLOAT16_PRODUCT_PROVIDER_H_

#include "backends/cpu/bfloat16/matrix_unit.h"
#include "backends/cpu/engine.h"
#include "backends/cpu/provider.h"

namespace backends::cpu {

// This provider offers `matmul` of canonical operands in bfloat16 whose operand b has two
// dimensions, by the matrix unit: with any post-operations, with c in bfloat16 or float32, and with
// the sums over the rows of a.
class Bfloat16ProductProvider : public Provider {
 public:
  explicit Bfloat16ProductProvider(const Engine& engine);

  bool takes_bfloat16() const override { return true; }
  Answer query(const Operation& op) override;
  std::unique_ptr<Plan> create(const Operation& op, uint32_t algorithm) override;

 private:
  const Engine& engine_;
  const bfloat16::MatrixUnit* unit_ = nullptr;  // null: nothing is offered
};

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_BFLOAT16_PRODUCT_PROVIDER_H_
