// The functions of `activation` and of post-operations, and their derivatives. The formulas are in
// plugins/operations.md.
#ifndef BACKENDS_GPU_ACTIVATION_H_
#define BACKENDS_GPU_ACTIVATION_H_

#include "backends/gpu/device_code.h"
#include "backends/gpu/unroll.h"

namespace backends::gpu {

// exp(x) and 1 / x for numbers that will be stored as T. If T has 16 bits, CUDA's approximations
// have digits to spare: the relative error of __expf is at most (2 + |1.2 x|) 2^-23, that of
// rcp.approx 2^-23 ("CUDA C++ Programming Guide", "Mathematical functions"; PTX ISA, "rcp").
template <typename T>
GPU_DEVICE Compute<T> exp_for(Compute<T> x) {
#if defined(__CUDA_ARCH__)
  if constexpr (kSixteenBit<T>) return __expf(x);
#endif
  return exp_of(x);
}
template <typename T>
GPU_DEVICE Compute<T> reciprocal_for(Compute<T> x) {
#if defined(__CUDA_ARCH__)
  if constexpr (kSixteenBit<T>) {
    float y;
    asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
#endif
  return Compute<T>(1) / x;
}

// P(X <= x) of the normal distribution, and its approximation by tanh. Both are in a form that
// keeps its digits where the result is small.
template <typename C>
GPU_DEVICE C normal_cdf(C x) {
  return C(0.5) * erfc_of(x * C(-0.70710678118654752440));
}
template <typename T>
GPU_DEVICE Compute<T> normal_cdf_by_tanh(Compute<T> x) {
  using C = Compute<T>;
  return reciprocal_for<T>(
      C(1) + exp_for<T>(C(-2 * 0.79788456080286535588) * (x + C(0.044715) * x * x * x)));
}

// f(x) for an element that will be stored as T.
template <int32_t kFunction, typename T, typename C = Compute<T>>
GPU_DEVICE C value_of(C x) {
  if constexpr (kFunction == RT_ACTIVATION_RELU) {
    return x > C(0) ? x : (x != x ? x : C(0));
  } else if constexpr (kFunction == RT_ACTIVATION_GELU) {
    return x * normal_cdf(x);
  } else if constexpr (kFunction == RT_ACTIVATION_GELU_TANH) {
    return x * normal_cdf_by_tanh<T>(x);
  } else if constexpr (kFunction == RT_ACTIVATION_TANH) {
    return tanh_of(x);
  } else if constexpr (kFunction == RT_ACTIVATION_SIGMOID) {
    return reciprocal_for<T>(C(1) + exp_for<T>(-x));
  } else if constexpr (kFunction == RT_ACTIVATION_SILU) {
    return x * value_of<RT_ACTIVATION_SIGMOID, T>(x);
  } else {
    return forward_only<kFunction>(x);
  }
}

// dy times the derivative of f. s is y for relu, tanh and sigmoid, and x for the two gelus and
// silu.
template <int32_t kFunction, typename T>
GPU_DEVICE Compute<T> gradient_of(Compute<T> dy, Compute<T> s) {
  using C = Compute<T>;
  if constexpr (kFunction == RT_ACTIVATION_RELU) {
    return s <= C(0) ? C(0) : dy;  // a NaN lets the gradient through, as in PyTorch
  } else if constexpr (kFunction == RT_ACTIVATION_GELU) {
    return dy * (normal_cdf(s) + s * C(0.39894228040143267794) * exp_for<T>(C(-0.5) * s * s));
  } else if constexpr (kFunction == RT_ACTIVATION_GELU_TANH) {
    const C cdf = normal_cdf_by_tanh<T>(s);
    // Limits the slope to finite values, because it is multiplied by 0 where the cdf is 0 or 1.
    const C near = s < C(-1e4) ? C(-1e4) : (s > C(1e4) ? C(1e4) : s);
    const C slope = C(2 * 0.79788456080286535588) * (C(1) + C(3 * 0.044715) * near * near);
    return dy * (cdf + s * cdf * (C(1) - cdf) * slope);
  } else if constexpr (kFunction == RT_ACTIVATION_TANH) {
    return dy * (C(1) - s * s);
  } else if constexpr (kFunction == RT_ACTIVATION_SILU) {
    return dy * value_of<RT_ACTIVATION_SIGMOID, T>(s) *
           (C(1) + s * value_of<RT_ACTIVATION_SIGMOID, T>(-s));
  } else {
    return dy * s * (C(1) - s);
  }
}

template <int32_t kFunction, typename T, int N>
GPU_DEVICE void activate_all(Compute<T> (&y)[N]) {
  GPU_UNROLL
  for (int k = 0; k < N; ++k) y[k] = value_of<kFunction, T>(y[k]);
}
template <int32_t kFunction, typename T, int N>
GPU_DEVICE void activate_all_backward(Compute<T> (&dy)[N], const Compute<T> (&s)[N]) {
  GPU_UNROLL
  for (int k = 0; k < N; ++k) dy[k] = gradient_of<kFunction, T>(dy[k], s[k]);
}

// N elements, by a function that is known at run time only: one branch for all of them.
template <typename T, int N>
GPU_DEVICE void activate(int32_t function, Compute<T> (&y)[N]) {
  switch (function) {
    case RT_ACTIVATION_RELU:
      return activate_all<RT_ACTIVATION_RELU, T, N>(y);
    case RT_ACTIVATION_GELU:
      return activate_all<RT_ACTIVATION_GELU, T, N>(y);
    case RT_ACTIVATION_GELU_TANH:
      return activate_all<RT_ACTIVATION_GELU_TANH, T, N>(y);
    case RT_ACTIVATION_TANH:
      return activate_all<RT_ACTIVATION_TANH, T, N>(y);
    default:
      return activate_all<RT_ACTIVATION_SIGMOID, T, N>(y);
  }
}
template <typename T, int N>
GPU_DEVICE void activate_backward(int32_t function, Compute<T> (&dy)[N], const Compute<T> (&s)[N]) {
  switch (function) {
    case RT_ACTIVATION_RELU:
      return activate_all_backward<RT_ACTIVATION_RELU, T, N>(dy, s);
    case RT_ACTIVATION_GELU:
      return activate_all_backward<RT_ACTIVATION_GELU, T, N>(dy, s);
    case RT_ACTIVATION_GELU_TANH:
      return activate_all_backward<RT_ACTIVATION_GELU_TANH, T, N>(dy, s);
    case RT_ACTIVATION_TANH:
      return activate_all_backward<RT_ACTIVATION_TANH, T, N>(dy, s);
    default:
      return activate_all_backward<RT_ACTIVATION_SIGMOID, T, N>(dy, s);
  }
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ACTIVATION_H_
