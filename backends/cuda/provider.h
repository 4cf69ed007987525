// Declares the function with which vendor.cpp opens cuDNN.
#ifndef BACKENDS_CUDA_PROVIDER_H_
#define BACKENDS_CUDA_PROVIDER_H_

#include <memory>

#include "backends/gpu/blas_lt.h"
#include "backends/gpu/vendor.h"

namespace backends::cuda {

using gpu::kToleranceTf32;

// Opens cuDNN for the calling thread's device. Throws RT_ERROR_UNAVAILABLE if the library or one of
// its functions is missing, or if it does not start. `tf32` allows products of float32 with 10 bits
// of mantissa.
std::unique_ptr<gpu::Vendor> open_cudnn(bool tf32);

}  // namespace backends::cuda

#endif  // BACKENDS_CUDA_PROVIDER_H_
