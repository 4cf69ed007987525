// Conversions between float and the 16 bits of a float16 or bfloat16. Rounding is to nearest, ties
// to even; a NaN stays a NaN. The functions have no branches, so that the compiler can vectorise
// loops over them, and they are constexpr, so that GPU code can call them.
#ifndef RT_SDK_FLOAT16_H_
#define RT_SDK_FLOAT16_H_

#include <bit>
#include <cstdint>

namespace rt::sdk {

// Converts a bfloat16, given by its bits, without rounding.
constexpr float from_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Rounds to the nearest bfloat16, ties to even, and returns its bits. A NaN stays a NaN.
constexpr uint16_t to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(nan ? bits >> 16 | 0x40u : rounded);
}

// Converts a float16 (IEEE binary16), given by its bits, without rounding.
constexpr float from_float16(uint16_t bits) {
  // Moving the bits into the fields of a float leaves an exponent that is 112 too small; the
  // multiplication corrects it and also makes subnormals right. Exponent 31 means infinity or NaN.
  const uint32_t magnitude = (bits & 0x7fffu) << 13;
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t special = (bits & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(finite | special | (bits & 0x8000u) << 16);
}

// Rounds to the nearest float16, ties to even, and returns its bits. What is too large becomes
// infinity, and a NaN stays a NaN.
constexpr uint16_t to_float16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
  // Below 2^-14: the last bit of 0.5f stands for 2^-24, like that of a float16 subnormal, so the
  // addition rounds.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;  // values from 65520 on become infinity
  result = magnitude > 0x7f800000u ? 0x7e00u : result;
  return static_cast<uint16_t>(result | (bits >> 16 & 0x8000u));
}

// Converts to float such that rounding the result to fewer bits gives the same as rounding `value`
// itself to that many bits: if the conversion is inexact, the last bit of the float is set (Boldo,
// Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
constexpr float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const double back = static_cast<double>(nearest);
  if (value != value || back == value || (bits & 1u) != 0) return nearest;
  const bool too_large = value < 0 ? back < value : back > value;
  return std::bit_cast<float>(too_large ? bits - 1 : bits + 1);
}

}  // namespace rt::sdk

#endif  // RT_SDK_FLOAT16_H_
