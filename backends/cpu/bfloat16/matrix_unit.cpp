#include "backends/cpu/bfloat16/matrix_unit.h"

#include "backends/cpu/bfloat16/processor.h"
#include "backends/cpu/isa.h"

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace backends::cpu::bfloat16 {

#if defined(__x86_64__)
extern const MatrixUnit kAmx;
#endif

const MatrixUnit* matrix_unit() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr int kRequestPermission = 0x1023,
                kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  if (has_bfloat16_matrices() && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) {
    return &kAmx;
  }
#endif
  return nullptr;
}

}  // namespace backends::cpu::bfloat16
