// The one place that knows whether cuBLASLt or hipBLASLt multiplies matrices. The two libraries
// have the same functions: LT(Matmul) is cublasLtMatmul or hipblasLtMatmul. Types and constants
// follow the same rule: LT(MatmulDesc_t), LT_CONSTANT(EPILOGUE_RELU), BLAS_CONSTANT(OP_T).
#ifndef BACKENDS_GPU_BLAS_LT_NAMES_H_
#define BACKENDS_GPU_BLAS_LT_NAMES_H_

#include "backends/gpu/api.h"

#if defined(BACKENDS_GPU_CUDA)
#include <cublasLt.h>
#define LT(name) cublasLt##name
#define LT_CONSTANT(name) CUBLASLT_##name
#define BLAS(name) cublas##name
#define BLAS_CONSTANT(name) CUBLAS_##name
#define BLAS_NUMBER(name) CUDA_##name
#else
#include <hipblaslt/hipblaslt.h>
#define LT(name) hipblasLt##name
#define LT_CONSTANT(name) HIPBLASLT_##name
#define BLAS(name) hipblas##name
#define BLAS_CONSTANT(name) HIPBLAS_##name
#define BLAS_NUMBER(name) HIP_##name
#endif

namespace backends::gpu {

#if defined(BACKENDS_GPU_CUDA)
using BlasNumber = cudaDataType_t;
inline constexpr char kBlasName[] = "cuBLAS", kBlasLtName[] = "cublaslt";
// The most workspace that a launch may use, in bytes; the size that cuBLAS recommends for Hopper.
inline constexpr uint64_t kMostBlasWorkspace = 32 << 20;
// Whether the library is slower for sizes that are no multiples of 16 bytes (gemm.h,
// aligned_parts).
inline constexpr bool kSizesMatter = true;
#else
using BlasNumber = hipDataType;
inline constexpr char kBlasName[] = "hipBLAS", kBlasLtName[] = "hipblaslt";
// No workspace, so that no sum over k is split; backends/rocm/README.md says why.
inline constexpr uint64_t kMostBlasWorkspace = 0;
inline constexpr bool kSizesMatter = false;  // AMD documents nothing of the kind
#endif

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_BLAS_LT_NAMES_H_
