// The provider of our own kernels; see provider.h for what each function does.
#ifndef BACKENDS_CPU_NATIVE_PROVIDER_H_
#define BACKENDS_CPU_NATIVE_PROVIDER_H_

#include "backends/cpu/native.h"

namespace backends::cpu {

// Serves the operations of all tables in native.h. It works on the layouts of the other providers.
class NativeProvider : public Provider {
 public:
  NativeProvider(Engine& engine, Layouts& layouts) : context_{engine, layouts} {}
  Answer query(const Operation& op) override;
  std::unique_ptr<Plan> create(const Operation& op, uint32_t algorithm) override;

 private:
  NativeContext context_;
};

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_NATIVE_PROVIDER_H_
