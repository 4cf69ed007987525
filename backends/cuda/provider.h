// One library of the vendor on one opened device.
#ifndef BACKENDS_CUDA_PROVIDER_H_
#define BACKENDS_CUDA_PROVIDER_H_

#include <memory>

#include "backends/gpu/vendor.h"

namespace backends::cuda {

// Both throw RT_ERROR_UNAVAILABLE where the library or a function of it is missing or does not
// start. `tf32`: float32 may be multiplied with 10 bits after the point.
std::unique_ptr<gpu::Vendor> open_cublaslt(bool tf32);
std::unique_ptr<gpu::Vendor> open_cudnn(bool tf32);

// Relative, of a product with TF32: operands are rounded to 11 bits.
inline constexpr double kToleranceTf32 = 2e-3;
// A launch may use this much scratch memory; what cuBLAS recommends for Hopper.
inline constexpr uint64_t kMostWorkspace = 32 << 20;

}  // namespace backends::cuda

#endif  // BACKENDS_CUDA_PROVIDER_H_
