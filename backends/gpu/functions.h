// Mathematical functions of kernels, by one name for float and double.
#ifndef BACKENDS_GPU_FUNCTIONS_H_
#define BACKENDS_GPU_FUNCTIONS_H_

#include <cmath>
#include <cstdint>

#include "backends/gpu/plan.h"

namespace backends::gpu {

// The functions of the C library for float and double.
GPU_DEVICE float erfc_of(float x) { return erfcf(x); }
GPU_DEVICE double erfc_of(double x) { return erfc(x); }
GPU_DEVICE float exp_of(float x) { return expf(x); }
GPU_DEVICE double exp_of(double x) { return exp(x); }
GPU_DEVICE float tanh_of(float x) { return tanhf(x); }
GPU_DEVICE double tanh_of(double x) { return tanh(x); }
GPU_DEVICE float log_of(float x) { return logf(x); }
GPU_DEVICE double log_of(double x) { return log(x); }
GPU_DEVICE float sin_of(float x) { return sinf(x); }
GPU_DEVICE double sin_of(double x) { return sin(x); }
GPU_DEVICE float cos_of(float x) { return cosf(x); }
GPU_DEVICE double cos_of(double x) { return cos(x); }
GPU_DEVICE float floor_of(float x) { return floorf(x); }
GPU_DEVICE double floor_of(double x) { return floor(x); }
GPU_DEVICE float sqrt_of(float x) { return sqrtf(x); }
GPU_DEVICE double sqrt_of(double x) { return sqrt(x); }

// f(x) for a function that `activation` alone has, see kForwardOnly in rt/sdk/post_ops.h.
template <int32_t kFunction, typename C>
GPU_DEVICE C forward_only(C x) {
  if constexpr (kFunction == RT_ACTIVATION_EXP) return exp_of(x);
  if constexpr (kFunction == RT_ACTIVATION_LOG) return log_of(x);
  if constexpr (kFunction == RT_ACTIVATION_SQRT) return sqrt_of(x);
  if constexpr (kFunction == RT_ACTIVATION_RECIPROCAL) return C(1) / x;
  if constexpr (kFunction == RT_ACTIVATION_SIN) return sin_of(x);
  if constexpr (kFunction == RT_ACTIVATION_COS) return cos_of(x);
  if constexpr (kFunction == RT_ACTIVATION_FLOOR) return floor_of(x);
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_FUNCTIONS_H_
