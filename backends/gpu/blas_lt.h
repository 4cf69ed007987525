// matmul by the vendor's library, cuBLASLt or hipBLASLt. One source serves both.
#ifndef BACKENDS_GPU_BLAS_LT_H_
#define BACKENDS_GPU_BLAS_LT_H_

#include <memory>

#include "backends/gpu/vendor.h"

namespace backends::gpu {

// Opens the library for the calling thread's device. Throws RT_ERROR_UNAVAILABLE if the library or
// one of its functions is missing, or if it does not start. `tf32` allows products of float32 in
// TF32, which has 11 significant bits (10 of them are stored).
std::unique_ptr<Vendor> open_blas_lt(bool tf32);

// The relative error by norm that a product with TF32 may have. Tensor cores truncate each operand
// to 11 significant bits. This makes an operand smaller by a relative error of at most 2^-10, a
// third of that on average, and a product of two operands by about 7e-4. The conformance checks
// accept this bound for float32, and no larger one.
inline constexpr double kToleranceTf32 = 1e-3;

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_BLAS_LT_H_
