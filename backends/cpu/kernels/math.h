// Float functions that gcc vectorises (no branches, no calls), accurate to a few units in the last
// place of the result's scale.
#ifndef BACKENDS_CPU_KERNELS_MATH_H_
#define BACKENDS_CPU_KERNELS_MATH_H_

#include <bit>
#include <cstdint>

#include "rt/operations.h"

#define CPU_INLINE inline __attribute__((always_inline))

namespace backends::cpu::kernels {

// exp by 2^n p(r), r = x - n ln 2 in two pieces; p of degree 6 (Taylor, |r| <= 0.347: error
// 1.2e-7 relative). Below -87.3 it is 0, above 88.73 infinite.
CPU_INLINE float fast_exp(float x) {
  const float clamped = x < -87.3f ? -87.3f : (x > 89.0f ? 89.0f : x);
  const float shifted = clamped * 1.44269504088896341f + 12582912.0f;  // rounds to an integer
  const float n = shifted - 12582912.0f;
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // 2^n in two factors: n = 128 has no float of its own.
  const int32_t whole = static_cast<int32_t>(n);
  const int32_t half = whole >> 1;
  const float scale_a = std::bit_cast<float>((half + 127) << 23);
  const float scale_b = std::bit_cast<float>((whole - half + 127) << 23);
  const float result = p * scale_a * scale_b;
  return x < -87.3f ? 0.0f : result;
}

// exp for x <= 0 where the absolute error matters (relative: 1e-7 (1 + |x|)): half the work. 2^n
// p(r) with p of degree 5, fitted by Remez' algorithm on |r| <= 1/2; 0 below -88, NaN stays.
CPU_INLINE float fast_exp_negative(float x) {
  const float y = x * 1.44269504088896341f;
  const float clamped = y < -127.0f ? -127.0f : y;  // has the exponent of 0
  const float shifted = clamped + 12582912.0f;      // rounds to an integer
  const float r = clamped - (shifted - 12582912.0f);
  float p = 0.0013276471979478776f;
  p = p * r + 0.00967554133421605f;
  p = p * r + 0.05550713273542586f;
  p = p * r + 0.24022119723848476f;
  p = p * r + 0.6931469670647331f;
  p = p * r + 1.0f;
  // The last bits of `shifted` are n: moved into the exponent of 1.
  return p * std::bit_cast<float>((std::bit_cast<int32_t>(shifted) << 23) + 0x3F800000);
}

CPU_INLINE float fast_sigmoid(float x) {
  const float e = fast_exp_negative(x < 0.0f ? x : -x);
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// Near zero 1 - exp(-2x) loses digits, so there an odd polynomial (Cephes' tanhf) takes over.
CPU_INLINE float fast_tanh(float x) {
  const float a = x < 0.0f ? -x : x;
  const float e = fast_exp_negative(-2.0f * a);
  const float large = (1.0f - e) / (1.0f + e);
  const float s = x * x;
  float p = -5.70498872745e-3f;
  p = p * s + 2.06390887954e-2f;
  p = p * s - 5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s - 3.33332819422e-1f;
  const float small = a + a * s * p;
  const float magnitude = a < 0.625f ? small : large;
  return x < 0.0f ? -magnitude : magnitude;
}

struct Erf {
  float value, exp;  // erf(x), exp(-x^2)
};

// Abramowitz and Stegun 7.1.26: absolute error below 1.5e-7, the rounding of float.
CPU_INLINE Erf fast_erf(float x) {
  const float a = x < 0.0f ? -x : x;
  const float t = 1.0f / (1.0f + 0.3275911f * a);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const float e = fast_exp_negative(-a * a);
  const float magnitude = 1.0f - p * t * e;
  return {x < 0.0f ? -magnitude : magnitude, e};
}

inline constexpr float kSqrtHalf = 0.70710678118654752f;
inline constexpr float kInverseSqrtTwoPi = 0.39894228040143268f;
inline constexpr float kGeluTanhScale = 0.79788456080286536f;  // sqrt(2 / pi)
inline constexpr float kGeluTanhCubic = 0.044715f;

// (1 + tanh(z)) / 2 = sigmoid(2 z)
CPU_INLINE float gelu_tanh_cdf(float x) {
  return fast_sigmoid(2.0f * kGeluTanhScale * x * (1.0f + kGeluTanhCubic * x * x));
}

template <int32_t kFunction>
CPU_INLINE float activate(float x) {
  if constexpr (kFunction == RT_ACTIVATION_RELU) {
    return x < 0.0f ? 0.0f : x;  // keeps NaN
  } else if constexpr (kFunction == RT_ACTIVATION_GELU) {
    return 0.5f * x * (1.0f + fast_erf(x * kSqrtHalf).value);
  } else if constexpr (kFunction == RT_ACTIVATION_GELU_TANH) {
    return x * gelu_tanh_cdf(x);
  } else if constexpr (kFunction == RT_ACTIVATION_TANH) {
    return fast_tanh(x);
  } else {
    return fast_sigmoid(x);
  }
}

// dy f'(.); s is y for relu, tanh and sigmoid, x for the gelus.
template <int32_t kFunction>
CPU_INLINE float activate_backward(float dy, float s) {
  if constexpr (kFunction == RT_ACTIVATION_RELU) {
    return s <= 0.0f ? 0.0f : dy;  // NaN lets the gradient through, as in PyTorch
  } else if constexpr (kFunction == RT_ACTIVATION_GELU) {
    const Erf erf = fast_erf(s * kSqrtHalf);
    return dy * (0.5f * (1.0f + erf.value) + s * kInverseSqrtTwoPi * erf.exp);
  } else if constexpr (kFunction == RT_ACTIVATION_GELU_TANH) {
    const float cdf = gelu_tanh_cdf(s);
    // Where the cdf is 0 or 1 the slope must not be infinite.
    const float near = s < -1e4f ? -1e4f : (s > 1e4f ? 1e4f : s);
    const float slope = 2.0f * kGeluTanhScale * (1.0f + 3.0f * kGeluTanhCubic * near * near);
    return dy * (cdf + s * cdf * (1.0f - cdf) * slope);
  } else if constexpr (kFunction == RT_ACTIVATION_TANH) {
    return dy * (1.0f - s * s);
  } else {
    return dy * s * (1.0f - s);
  }
}

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_MATH_H_
