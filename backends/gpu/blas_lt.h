// matmul by the vendor's library, cuBLASLt or hipBLASLt. One source serves both.
#ifndef BACKENDS_GPU_BLAS_LT_H_
#define BACKENDS_GPU_BLAS_LT_H_

#include <memory>

#include "backends/gpu/vendor.h"

namespace backends::gpu {

// Opens the library for the calling thread's device. Throws RT_ERROR_UNAVAILABLE if the library or
// one of its functions is missing, or if it does not start. `tf32` allows products of float32 with
// 10 bits of mantissa.
std::unique_ptr<Vendor> open_blas_lt(bool tf32);

// The relative error by norm that a product with TF32 may have. Tensor cores drop all but 11 bits
// of each operand: every factor shrinks by at most 2^-10 and by a third of that on average, and
// both factors together by about 7e-4. The conformance checks accept this bound for float32, and no
// larger one.
inline constexpr double kToleranceTf32 = 1e-3;

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_BLAS_LT_H_
