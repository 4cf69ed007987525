// Float functions without branches and calls, which gcc therefore vectorises. They are accurate to
// a few units in the last place of the result's scale.
#ifndef BACKENDS_CPU_KERNELS_MATH_H_
#define BACKENDS_CPU_KERNELS_MATH_H_

#include <bit>
#include <cstdint>

#include "rt/operations.h"

#define CPU_INLINE inline __attribute__((always_inline))

namespace backends::cpu::kernels {

// exp(x) = 2^n p(r), r = x - n ln 2 with ln 2 in two parts. p is the Taylor polynomial of degree 6
// (relative error 1.2e-7 for |r| <= 0.347). The result is 0 below -87.3, infinite above 88.73.
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
  // 2^n is a product of two factors, because 2^128 is no float.
  const int32_t whole = static_cast<int32_t>(n);
  const int32_t half = whole >> 1;
  const float scale_a = std::bit_cast<float>((half + 127) << 23);
  const float scale_b = std::bit_cast<float>((whole - half + 127) << 23);
  const float result = p * scale_a * scale_b;
  return x < -87.3f ? 0.0f : result;
}

// exp(x) for x <= 0 with half the work of fast_exp, for results whose absolute error matters (the
// relative error is 1e-7 (1 + |x|)). 2^n p(r) with p of degree 5, fitted by Remez' algorithm on |r|
// <= 1/2. The result is 0 below -88; NaN gives NaN.
CPU_INLINE float fast_exp_negative(float x) {
  const float y = x * 1.44269504088896341f;
  const float clamped = y < -127.0f ? -127.0f : y;  // 2^-127 has the exponent bits of 0
  const float shifted = clamped + 12582912.0f;      // rounds to an integer
  const float r = clamped - (shifted - 12582912.0f);
  float p = 0.0013276471979478776f;
  p = p * r + 0.00967554133421605f;
  p = p * r + 0.05550713273542586f;
  p = p * r + 0.24022119723848476f;
  p = p * r + 0.6931469670647331f;
  p = p * r + 1.0f;
  // The last bits of `shifted` are n; the shift adds n to the exponent of 1.
  return p * std::bit_cast<float>((std::bit_cast<int32_t>(shifted) << 23) + 0x3F800000);
}

CPU_INLINE float fast_sigmoid(float x) {
  const float e = fast_exp_negative(x < 0.0f ? x : -x);
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// tanh(x). Near zero 1 - exp(-2x) loses digits, so an odd polynomial (that of Cephes' tanhf)
// replaces it there.
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

inline constexpr float kSqrtHalf = 0.70710678118654752f;
inline constexpr float kInverseSqrtTwoPi = 0.39894228040143268f;
inline constexpr float kGeluTanhScale = 0.79788456080286536f;  // sqrt(2 / pi)
inline constexpr float kGeluTanhCubic = 0.044715f;

struct Normal {
  float cdf, exp;  // the distribution function of the normal distribution, and exp(-x^2 / 2)
};

// The smaller tail of the cdf is erfc(a) / 2 = t p(t) exp(-a^2), t = 1 / (1 + 0.43 a), a = |x| /
// sqrt(2). p has degree 7, fitted to a relative error of 1e-7 until the tail is subnormal. The
// usual form 1 + erf(x / sqrt(2)) has no digits left below x = -5.
CPU_INLINE Normal fast_normal(float x) {
  const float a = (x < 0.0f ? -x : x) * kSqrtHalf;
  const float t = 1.0f / (1.0f + 0.43f * a);
  float p = 0.0368346237f;
  p = p * t - 0.155108333f;
  p = p * t + 0.191721425f;
  p = p * t - 0.042744983f;
  p = p * t + 0.123361327f;
  p = p * t + 0.102493607f;
  p = p * t + 0.12218488f;
  p = p * t + 0.121257484f;
  const float e = fast_exp_negative(-a * a);
  const float tail = p * t * e;
  return {x < 0.0f ? tail : 1.0f - tail, e};
}

// (1 + tanh(z)) / 2 = sigmoid(2 z), where z is the argument of tanh in GELU's approximation.
CPU_INLINE float gelu_tanh_cdf(float x) {
  return fast_sigmoid(2.0f * kGeluTanhScale * x * (1.0f + kGeluTanhCubic * x * x));
}

template <int32_t kFunction>
CPU_INLINE float activate(float x) {
  if constexpr (kFunction == RT_ACTIVATION_RELU) {
    return x < 0.0f ? 0.0f : x;  // NaN gives NaN
  } else if constexpr (kFunction == RT_ACTIVATION_GELU) {
    return x * fast_normal(x).cdf;
  } else if constexpr (kFunction == RT_ACTIVATION_GELU_TANH) {
    return x * gelu_tanh_cdf(x);
  } else if constexpr (kFunction == RT_ACTIVATION_TANH) {
    return fast_tanh(x);
  } else {
    return fast_sigmoid(x);
  }
}

// dy times the derivative of the activation. s is y for relu, tanh and sigmoid, and x for the
// gelus.
template <int32_t kFunction>
CPU_INLINE float activate_backward(float dy, float s) {
  if constexpr (kFunction == RT_ACTIVATION_RELU) {
    return s <= 0.0f ? 0.0f : dy;  // a NaN lets the gradient through, as in PyTorch
  } else if constexpr (kFunction == RT_ACTIVATION_GELU) {
    const Normal normal = fast_normal(s);
    return dy * (normal.cdf + s * kInverseSqrtTwoPi * normal.exp);
  } else if constexpr (kFunction == RT_ACTIVATION_GELU_TANH) {
    const float cdf = gelu_tanh_cdf(s);
    // Limits the slope to finite values, because it is multiplied by 0 where the cdf is 0 or 1.
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
