// The activation functions and their derivatives, from the functions of math.h.
#ifndef BACKENDS_CPU_KERNELS_ACTIVATION_H_
#define BACKENDS_CPU_KERNELS_ACTIVATION_H_

#include <cmath>
#include <cstdint>

#include "backends/cpu/kernels/math.h"
#include "rt/operations.h"

namespace backends::cpu::kernels {

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
  } else if constexpr (kFunction == RT_ACTIVATION_SIGMOID) {
    return fast_sigmoid(x);
  } else if constexpr (kFunction == RT_ACTIVATION_SILU) {
    return x * fast_sigmoid(x);
  } else if constexpr (kFunction == RT_ACTIVATION_EXP) {
    return fast_exp(x);
  } else if constexpr (kFunction == RT_ACTIVATION_LOG) {
    return fast_log(x);
  } else if constexpr (kFunction == RT_ACTIVATION_SQRT) {
    return std::sqrt(x);
  } else if constexpr (kFunction == RT_ACTIVATION_SIN) {
    return std::sin(x);
  } else if constexpr (kFunction == RT_ACTIVATION_COS) {
    return std::cos(x);
  } else if constexpr (kFunction == RT_ACTIVATION_FLOOR) {
    return std::floor(x);
  } else {
    return 1.0f / x;
  }
}

// dy times the derivative of the activation. s is y for relu, tanh and sigmoid, and x for the
// gelus and silu.
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
  } else if constexpr (kFunction == RT_ACTIVATION_SILU) {
    const float sigmoid = fast_sigmoid(s);
    return dy * (sigmoid + s * sigmoid * (1.0f - sigmoid));
  } else {
    return dy * s * (1.0f - s);
  }
}

// The same where both x and y = f(x) are known. Near 1, y itself has few digits of the derivatives
// of tanh, 4 sigmoid(2 x) sigmoid(-2 x), and of sigmoid.
template <int32_t kFunction>
CPU_INLINE float activate_backward(float dy, float x, float y) {
  if constexpr (kFunction == RT_ACTIVATION_TANH) {
    return dy * 4.0f * fast_sigmoid(2.0f * x) * fast_sigmoid(-2.0f * x);
  } else if constexpr (kFunction == RT_ACTIVATION_SIGMOID) {
    return dy * y * fast_sigmoid(-x);
  } else {
    return activate_backward<kFunction>(dy, kFunction == RT_ACTIVATION_RELU ? y : x);
  }
}

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_ACTIVATION_H_
