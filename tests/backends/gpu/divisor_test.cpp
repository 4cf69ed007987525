// Quotients by multiplication are those of the division, to the largest numbers and divisors.
#include "backends/gpu/divisor.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace backends::gpu {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostSmall = (int64_t{1} << 31) - 1;

std::vector<int64_t> divisors(std::mt19937_64& random) {
  std::vector<int64_t> all;
  for (int64_t d = 1; d <= 300; ++d) all.push_back(d);
  for (int bit = 8; bit < 62; ++bit) {
    const int64_t power = int64_t{1} << bit;
    all.insert(all.end(), {power - 1, power, power + 1});
    all.push_back(power + static_cast<int64_t>(random() % static_cast<uint64_t>(power)));
  }
  return all;
}

// Numbers around the multiples of the divisor, small ones, large ones.
std::vector<int64_t> numbers(int64_t divisor, std::mt19937_64& random) {
  std::vector<int64_t> all = {0, 1, kMostSmall - 1, kMostSmall, kMostSmall + 1, kLargest};
  for (int i = 0; i < 200; ++i) {
    const auto any = static_cast<int64_t>(random() >> (1 + random() % 62));
    const int64_t multiple = any / divisor * divisor;
    all.insert(all.end(), {any, multiple, multiple > 0 ? multiple - 1 : 0});
  }
  return all;
}

TEST(GpuDivisor, QuotientsAndRemaindersAreThoseOfTheDivision) {
  std::mt19937_64 random(5);
  for (const int64_t divisor : divisors(random)) {
    const Divisor by(divisor);
    for (const int64_t n : numbers(divisor, random)) {
      ASSERT_EQ(by.quotient(n), n / divisor) << n << " / " << divisor;
      ASSERT_EQ(by.remainder(n), n % divisor) << n << " / " << divisor;
      if (n > kMostSmall || divisor > kMostSmall) continue;
      ASSERT_EQ(by.small_quotient(static_cast<uint32_t>(n)), n / divisor) << n << " / " << divisor;
    }
  }
}

TEST(GpuDivisor, AnEmptyDimensionDividesNothing) {
  EXPECT_EQ(Divisor(0).value(), 1);
  EXPECT_EQ(Divisor().quotient(7), 7);
}

}  // namespace
}  // namespace backends::gpu
