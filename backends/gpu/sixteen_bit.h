// float16 and bfloat16 as element types of kernels. Elements are stored in 16 bits and computed
// with in float.
#ifndef BACKENDS_GPU_SIXTEEN_BIT_H_
#define BACKENDS_GPU_SIXTEEN_BIT_H_

#include <type_traits>

#include "backends/gpu/api.h"
#include "rt/sdk/float16.h"

namespace backends::gpu {

// NVIDIA's devices have instructions for the conversions (PTX ISA, "cvt"; bfloat16 from compute
// capability 8.0 on). Elsewhere the conversions work on the bits.
#if defined(__CUDA_ARCH__)
GPU_BOTH inline uint16_t narrow_float16(float value) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
GPU_BOTH inline float widen_float16(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
GPU_BOTH inline uint16_t narrow_bfloat16(float value) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
#else
GPU_BOTH inline uint16_t narrow_float16(float value) { return rt::sdk::to_float16(value); }
GPU_BOTH inline float widen_float16(uint16_t bits) { return rt::sdk::from_float16(bits); }
GPU_BOTH inline uint16_t narrow_bfloat16(float value) { return rt::sdk::to_bfloat16(value); }
#endif

// Elements in memory, which convert to and from float.
struct Float16 {
  uint16_t bits;
  Float16() = default;
  GPU_BOTH explicit Float16(float value) : bits(narrow_float16(value)) {}
  GPU_BOTH operator float() const { return widen_float16(bits); }
};
struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  GPU_BOTH explicit BFloat16(float value) : bits(narrow_bfloat16(value)) {}
  GPU_BOTH operator float() const { return rt::sdk::from_bfloat16(bits); }
};
template <typename T>
inline constexpr bool kSixteenBit = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// Converts a number to another type, rounding once.
template <typename To, typename From>
GPU_BOTH To convert(From x) {
  if constexpr (kSixteenBit<To> && (std::is_same_v<From, double> || std::is_integral_v<From>)) {
    return To(rt::sdk::round_to_odd(static_cast<double>(x)));
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_SIXTEEN_BIT_H_
