// Returns the kernels for the matrix unit if the build and this processor have it.
#include "backends/cpu/bfloat16/matrix_unit.h"

#include "backends/cpu/bfloat16/processor.h"

namespace backends::cpu::bfloat16 {

#if defined(__x86_64__)
extern const MatrixUnit kAmx;
#endif

const MatrixUnit* matrix_unit() {
#if defined(__x86_64__)
  if (can_use_matrix_unit()) return &kAmx;
#endif
  return nullptr;
}

}  // namespace backends::cpu::bfloat16
