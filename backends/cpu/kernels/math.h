// Float functions without branches and calls, which gcc therefore vectorises. They are accurate to
// a few units in the last place of the result's scale.
#ifndef BACKENDS_CPU_KERNELS_MATH_H_
#define BACKENDS_CPU_KERNELS_MATH_H_

#include <bit>
#include <cstdint>
#include <limits>

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

// log(x) = n ln 2 + log(m), x = 2^n m, with m from sqrt(1/2) to sqrt(2) and ln 2 in two parts. The
// polynomial for log(m) in m - 1 is that of Cephes' logf. Denormal x are scaled to normal numbers
// first.
CPU_INLINE float fast_log(float x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const bool denormal = x < std::numeric_limits<float>::min();
  const auto bits = std::bit_cast<uint32_t>(denormal ? x * 8388608.0f : x);  // 2^23
  const int32_t n = static_cast<int32_t>(bits - 0x3F3504F3u) >> 23;  // the bits of sqrt(1/2)
  const float r = std::bit_cast<float>(bits - (static_cast<uint32_t>(n) << 23)) - 1.0f;
  const float whole = static_cast<float>(denormal ? n - 23 : n);
  const float square = r * r;
  float p = 7.0376836292e-2f;
  p = p * r - 1.1514610310e-1f;
  p = p * r + 1.1676998740e-1f;
  p = p * r - 1.2420140846e-1f;
  p = p * r + 1.4249322787e-1f;
  p = p * r - 1.6668057665e-1f;
  p = p * r + 2.0000714765e-1f;
  p = p * r - 2.4999993993e-1f;
  p = p * r + 3.3333331174e-1f;
  const float small = p * r * square + whole * -2.12194440e-4f - 0.5f * square;
  const float finite = r + small + whole * 0.693359375f;
  const float positive = x < kInfinity ? finite : x;
  const float other = x == 0.0f ? -kInfinity : std::numeric_limits<float>::quiet_NaN();
  return x > 0.0f ? positive : other;
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

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_MATH_H_
