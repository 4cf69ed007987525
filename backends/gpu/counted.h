// How many elements of a tensor the vendors' libraries are asked to count. Our own kernels count
// with int64_t.
#ifndef BACKENDS_GPU_COUNTED_H_
#define BACKENDS_GPU_COUNTED_H_

#include <cstdint>

namespace backends::gpu {

// What the libraries do with more is not known, or not the same for all their kernels: a product by
// cuBLASLt of 64 x 1024 x 50,257 elements ended in an illegal memory access, and cuDNN documents
// this limit. Padding between rows counts.
inline constexpr int64_t kMostCounted = INT32_MAX;

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_COUNTED_H_
