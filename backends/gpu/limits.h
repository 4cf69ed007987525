// The sizes that kernels of our own do not take. Factories ask, so that query tells them.
#ifndef BACKENDS_GPU_LIMITS_H_
#define BACKENDS_GPU_LIMITS_H_

#include "backends/gpu/device_code.h"

namespace backends::gpu {

// The most blocks of kBlock threads in the first dimension of a grid: HIP counts the threads of a
// dimension in 32 bits, CUDA the blocks in 31.
inline constexpr int64_t kMostGridBlocks = kNvidia ? INT32_MAX : UINT32_MAX / kBlock;

// Throws RT_ERROR_UNSUPPORTED if `size`, which `what` names in the plural, is larger than `most`.
inline void expect_at_most(const Operation& op, int64_t size, int64_t most, const char* what) {
  if (size <= most) return;
  throw rt::sdk::Error(
      RT_ERROR_UNSUPPORTED,
      rt::sdk::format("%s: %lld %s, and the kernel takes at most %lld; use smaller operands",
                      op.desc().name, static_cast<long long>(size), what,
                      static_cast<long long>(most)));
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_LIMITS_H_
