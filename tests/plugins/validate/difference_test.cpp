// The distance of two results, against written-out numbers.
#include "plugins/validate/difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace plugins::validate {
namespace {

template <typename T>
double difference(const std::vector<T>& a, const std::vector<T>& b, rt_dtype dtype) {
  return relative_difference(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), dtype);
}

TEST(Difference, IsRelativeToTheNormOfTheFirst) {
  EXPECT_NEAR(difference<float>({3, 4}, {3, 4.5F}, RT_FLOAT32), 0.1, 1e-12);
  EXPECT_NEAR(difference<double>({3, 4}, {0, 0}, RT_FLOAT64), 1, 1e-12);
  EXPECT_EQ(difference<float>({3, 4}, {3, 4}, RT_FLOAT32), 0);
}

TEST(Difference, IsInfiniteWhereOnlyOneIsANumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isinf(difference<float>({3, 4}, {3, nan}, RT_FLOAT32)));
  EXPECT_EQ(difference<float>({3, nan}, {3, nan}, RT_FLOAT32), 0);
}

TEST(Difference, IsInfiniteForOtherIntegers) {
  EXPECT_TRUE(std::isinf(difference<int32_t>({1, 2}, {1, 3}, RT_INT32)));
  EXPECT_EQ(difference<int32_t>({1, 2}, {1, 2}, RT_INT32), 0);
}

TEST(Difference, ReadsSixteenBits) {
  // 1 and 1.5 in bfloat16 and in float16.
  EXPECT_NEAR(difference<uint16_t>({0x3F80}, {0x3FC0}, RT_BFLOAT16), 0.5, 1e-12);
  EXPECT_NEAR(difference<uint16_t>({0x3C00}, {0x3E00}, RT_FLOAT16), 0.5, 1e-12);
}

TEST(Difference, KnowsTheTypes) {
  EXPECT_EQ(element_bytes(RT_FLOAT32), 4u);
  EXPECT_EQ(element_bytes(RT_BFLOAT16), 2u);
  EXPECT_EQ(epsilon_of(RT_FLOAT32), std::numeric_limits<float>::epsilon());
  EXPECT_EQ(epsilon_of(RT_INT32), 0);
}

}  // namespace
}  // namespace plugins::validate
