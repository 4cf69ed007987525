// The one place that knows whether the code is compiled for CUDA or for HIP. GPU(Malloc) is
// cudaMalloc or hipMalloc; types and constants follow the same rule: GPU(Stream_t), GPU(Success).
//
// The compiler is nvcc, hipcc, or an ordinary compiler with HIP-CPU's headers
// (https://github.com/ROCm/HIP-CPU). In the last case kernels run on the processor, which is for
// tests.
#ifndef BACKENDS_GPU_API_H_
#define BACKENDS_GPU_API_H_

#if defined(BACKENDS_GPU_CUDA)
#include <cuda_runtime.h>
#define GPU(name) cuda##name
#define GPU_PROPERTIES cudaDeviceProp
#define GPU_OUT_OF_MEMORY cudaErrorMemoryAllocation
#define GPU_LAUNCH(kernel, grid, block, stream, ...) kernel<<<grid, block, 0, stream>>>(__VA_ARGS__)
#elif defined(BACKENDS_GPU_HIP)
#include <hip/hip_runtime.h>
#define GPU(name) hip##name
#define GPU_PROPERTIES hipDeviceProp_t
#define GPU_OUT_OF_MEMORY hipErrorOutOfMemory
#define GPU_LAUNCH(kernel, grid, block, stream, ...) \
  hipLaunchKernelGGL(kernel, grid, block, 0, stream, __VA_ARGS__)
#else
#error "compile with BACKENDS_GPU_CUDA or BACKENDS_GPU_HIP"
#endif

#if defined(__HIP_CPU_RT__)
// HIP-CPU cannot query events, so this function waits for the event.
inline hipError_t hipEventQuery(hipEvent_t event) { return hipEventSynchronize(event); }
// HIP-CPU declares device functions as `simd` clones, which break in loops with barriers.
#define GPU_DEVICE inline
#define GPU_BOTH
#define GPU_KERNEL static
#define GPU_KERNEL_OF(threads) static
#else
#define GPU_DEVICE __device__ __forceinline__
#define GPU_BOTH __host__ __device__
// A kernel that is launched with blocks of at most `threads` threads. hipcc prepares every kernel
// for blocks of 1024 threads unless told otherwise, so that a thread has at most 128 vector
// registers on gfx90a and some kernels spill; nvcc needs no telling.
#define GPU_KERNEL_OF(threads) static __global__ __launch_bounds__(threads)
#if defined(BACKENDS_GPU_HIP)
#define GPU_KERNEL GPU_KERNEL_OF(GPU_MOST_THREADS)
#else
#define GPU_KERNEL static __global__
#endif
#endif
#define GPU_MOST_THREADS 256  // of a block of a GPU_KERNEL

#include "rt/sdk/error.h"

namespace backends::gpu {

#if defined(BACKENDS_GPU_CUDA)
// Names for messages, and the two functions that CUDA and HIP name differently.
inline constexpr char kApiName[] = "CUDA";
inline constexpr char kPluginName[] = "cuda", kNativeKind[] = "cuda";
inline constexpr int32_t kPriority = 400;  // rt_device_properties.priority
inline constexpr bool kNvidia = true;
inline auto allocate_pinned(void** address, uint64_t bytes) {
  return cudaMallocHost(address, bytes);
}
inline auto free_pinned(void* address) { return cudaFreeHost(address); }
#else
inline constexpr char kApiName[] = "HIP";
inline constexpr char kPluginName[] = "rocm", kNativeKind[] = "hip";
inline constexpr int32_t kPriority = 300;
inline constexpr bool kNvidia = false;
inline auto allocate_pinned(void** address, uint64_t bytes) {
  return hipHostMalloc(address, bytes);
}
inline auto free_pinned(void* address) { return hipHostFree(address); }
#endif

// Does nothing for success. Throws RT_ERROR_OUT_OF_MEMORY, RT_ERROR_UNAVAILABLE or RT_ERROR_DEVICE
// with the driver's text and code. `what` says in the message what was tried.
void check(GPU(Error_t) status, const char* what);

// To be called after a kernel launch: throws if the launch itself failed (grid, registers, no code
// for this device).
inline void check_launch(const char* kernel) { check(GPU(GetLastError)(), kernel); }

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_API_H_
