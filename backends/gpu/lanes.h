// Values of neighbouring threads, and powers of 2.
#ifndef BACKENDS_GPU_LANES_H_
#define BACKENDS_GPU_LANES_H_

#include "backends/gpu/device_code.h"
#include "backends/gpu/unroll.h"

namespace backends::gpu {

inline constexpr double kLog2E = 1.4426950408889634074;

GPU_DEVICE int lesser(int a, int b) { return a < b ? a : b; }
// The larger number; the other one if one is NaN.
GPU_DEVICE float larger(float a, float b) { return fmaxf(a, b); }
GPU_DEVICE double larger(double a, double b) { return fmax(a, b); }
struct Larger {
  template <typename C>
  GPU_DEVICE static C combine(C a, C b) {
    return larger(a, b);
  }
};

// 2^x. NVIDIA's instruction has a relative error of about 2^-22 and gives 0 for denormal results.
#if defined(__CUDA_ARCH__)
GPU_DEVICE float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#else
GPU_DEVICE float exp2_of(float x) { return exp2f(x); }
#endif
GPU_DEVICE double exp2_of(double x) { return exp2(x); }

// Combines the values of each group of kLanes neighbouring threads, kLanes a power of 2 of at most
// 32, and returns the result in each of them. All threads of a block of at most kBlock must call it
// together.
template <typename How, int kLanes, typename C>
GPU_DEVICE C reduce_lanes(C value) {
#if defined(__HIP_CPU_RT__)
  __shared__ C scratch[kBlock];
#endif
  GPU_UNROLL for (int mask = kLanes / 2; mask > 0; mask /= 2) {
#if defined(__HIP_CPU_RT__)
    scratch[threadIdx.x] = value;
    __syncthreads();
    value = How::combine(value, scratch[threadIdx.x ^ static_cast<unsigned>(mask)]);
    __syncthreads();
#else
    value = How::combine(value, of_other_lane(value, mask));
#endif
  }
  return value;
}

// Sets the numbers that a thread holds to 0.
template <typename C, int kRows, int kColumns>
GPU_DEVICE void clear(C (&numbers)[kRows][kColumns]) {
  GPU_UNROLL for (int r = 0; r < kRows; ++r) {
    GPU_UNROLL for (int k = 0; k < kColumns; ++k) numbers[r][k] = C(0);
  }
}

// Multiplies them by a factor.
template <typename C, int kRows, int kColumns>
GPU_DEVICE void scale_by(C (&numbers)[kRows][kColumns], C factor) {
  GPU_UNROLL for (int r = 0; r < kRows; ++r) {
    GPU_UNROLL for (int k = 0; k < kColumns; ++k) numbers[r][k] *= factor;
  }
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_LANES_H_
