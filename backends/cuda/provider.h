// cuDNN on one opened device.
#ifndef BACKENDS_CUDA_PROVIDER_H_
#define BACKENDS_CUDA_PROVIDER_H_

#include <memory>

#include "backends/gpu/blas_lt.h"
#include "backends/gpu/vendor.h"

namespace backends::cuda {

using gpu::kToleranceTf32;

// Throws RT_ERROR_UNAVAILABLE where the library or a function of it is missing or does not start.
// `tf32`: float32 may be multiplied with 10 bits after the point.
std::unique_ptr<gpu::Vendor> open_cudnn(bool tf32);

// A launch may use this much scratch memory.
inline constexpr uint64_t kMostWorkspace = 32 << 20;

}  // namespace backends::cuda

#endif  // BACKENDS_CUDA_PROVIDER_H_
