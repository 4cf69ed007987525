// The provider of operations in bfloat16 that are neither a convolution nor a matrix product.
#ifndef BACKENDS_CPU_BFLOAT16_PROVIDER_H_
#define BACKENDS_CPU_BFLOAT16_PROVIDER_H_

#include "backends/cpu/native_provider.h"

namespace backends::cpu {

// Serves what NativeProvider does, in bfloat16 and in canonical layouts: by kernels of their own
// (plans.h), else on copies in float32 (widened.h).
class Bfloat16Provider : public Provider {
 public:
  Bfloat16Provider(Engine& engine, Layouts& layouts)
      : context_{engine, layouts}, native_(engine, layouts) {}
  bool takes_bfloat16() const override { return true; }
  Answer query(const Operation& op) override;
  std::unique_ptr<Plan> create(const Operation& op, uint32_t algorithm) override;

 private:
  NativeContext context_;
  NativeProvider native_;
};

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_BFLOAT16_PROVIDER_H_
