// Words for the compilers of device code: loops that must be unrolled, because they index arrays
// that are to lie in registers, long ones for which four turns at once are enough, loops that must
// not be, and kernels with a known number of threads. HIP-CPU, whose compiler is an ordinary one,
// needs none of them.
#ifndef BACKENDS_GPU_UNROLL_H_
#define BACKENDS_GPU_UNROLL_H_

#include "backends/gpu/api.h"

#if defined(__HIP_CPU_RT__)
#define GPU_UNROLL
#define GPU_UNROLL_BY_4
#define GPU_ROLL
#define GPU_KERNEL_OF(threads) static
#else
#define GPU_UNROLL _Pragma("unroll")
#define GPU_UNROLL_BY_4 _Pragma("unroll 4")
#define GPU_ROLL _Pragma("unroll 1")
#define GPU_KERNEL_OF(threads) static __global__ __launch_bounds__(threads)
#endif

#endif  // BACKENDS_GPU_UNROLL_H_
