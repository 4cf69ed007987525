// Compares the 16-bit conversions with the definition of the formats.
#include "rt/sdk/float16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace rt::sdk {
namespace {

struct Format {
  float (*from)(uint16_t);
  uint16_t (*to)(float);
  int exponent_bits, mantissa_bits;
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
};
void PrintTo(const Format& format, std::ostream* out) { *out << format.mantissa_bits << " bits"; }

constexpr Format kFloat16{from_float16, to_float16, 5, 10};
constexpr Format kBFloat16{from_bfloat16, to_bfloat16, 8, 7};

// The magnitude that IEEE 754 defines for `bits` without the sign; infinity counts as the next
// power of two.
double magnitude(const Format& format, uint32_t bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>(bits >> format.mantissa_bits);
  const uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const uint32_t hidden = exponent > 0 ? 1u << format.mantissa_bits : 0u;
  return std::ldexp(mantissa + hidden, std::max(exponent, 1) - bias - format.mantissa_bits);
}

class Conversion : public testing::TestWithParam<Format> {};

TEST_P(Conversion, EveryNumberThereAndBack) {
  const Format& format = GetParam();
  for (uint32_t bits = 0; bits < format.infinity(); ++bits) {
    const auto positive = static_cast<uint16_t>(bits);
    const auto negative = static_cast<uint16_t>(bits | 0x8000u);
    ASSERT_EQ(format.from(positive), magnitude(format, bits)) << bits;
    ASSERT_EQ(format.to(format.from(positive)), positive);
    ASSERT_EQ(format.to(format.from(negative)), negative);
  }
}

// Checks numbers just below, at and just above the middle of two neighbours, also of the largest
// number and infinity.
TEST_P(Conversion, RoundsToTheNearestTiesToEven) {
  const Format& format = GetParam();
  for (uint32_t bits = 0; bits < format.infinity(); ++bits) {
    const auto middle =
        static_cast<float>((magnitude(format, bits) + magnitude(format, bits + 1)) / 2);
    ASSERT_EQ(format.to(std::nextafter(middle, 0.0f)), bits) << middle;
    ASSERT_EQ(format.to(middle), bits + bits % 2) << middle;
    ASSERT_EQ(format.to(std::nextafter(middle, std::numeric_limits<float>::infinity())), bits + 1)
        << middle;
  }
}

TEST_P(Conversion, InfinityAndNan) {
  const Format& format = GetParam();
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(format.to(infinity), format.infinity());
  EXPECT_EQ(format.from(static_cast<uint16_t>(format.infinity() | 0x8000u)), -infinity);
  EXPECT_TRUE(std::isnan(format.from(format.to(std::nanf("")))));
  EXPECT_TRUE(std::isnan(format.from(format.to(std::bit_cast<float>(0x7f800001u)))));
}

INSTANTIATE_TEST_SUITE_P(Formats, Conversion, testing::Values(kFloat16, kBFloat16),
                         [](const auto& info) {
                           return info.param.mantissa_bits == 10 ? "float16" : "bfloat16";
                         });

}  // namespace
}  // namespace rt::sdk
