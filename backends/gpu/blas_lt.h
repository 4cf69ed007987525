// matmul by the vendor's library: cuBLASLt or hipBLASLt, from one source.
#ifndef BACKENDS_GPU_BLAS_LT_H_
#define BACKENDS_GPU_BLAS_LT_H_

#include <memory>

#include "backends/gpu/vendor.h"

namespace backends::gpu {

// For the calling thread's device. Throws RT_ERROR_UNAVAILABLE where the library or a function of
// it is missing or does not start. `tf32`: float32 may be multiplied with 10 bits after the point.
std::unique_ptr<Vendor> open_blas_lt(bool tf32);

// The relative error by norm that a product with TF32 may have. Tensor cores drop all but 11 bits
// of each operand: every factor shrinks by at most 2^-10, by a third of that on average, and both
// factors together by about 7e-4. The conformance checks accept this bound for float32, and no
// more.
inline constexpr double kToleranceTf32 = 1e-3;

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_BLAS_LT_H_
