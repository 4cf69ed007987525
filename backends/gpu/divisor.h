// Division by a number that the host knows.
#ifndef BACKENDS_GPU_DIVISOR_H_
#define BACKENDS_GPU_DIVISOR_H_

#include <cstdint>

#include "backends/gpu/api.h"

namespace backends::gpu {

// Divides numbers that are not negative by one that is positive, with a product instead of a
// division, for which a device has no instruction (Granlund and Montgomery, "Division by invariant
// integers using multiplication", 1994). A division of 64 bits takes a device about a hundred
// instructions, quotient() about fifteen, small_quotient() three.
class Divisor {
  __extension__ typedef unsigned __int128 Wide;

 public:
  Divisor() = default;
  // A value of 0, the size of an empty dimension by which nothing is divided, counts as 1.
  explicit Divisor(int64_t value) : value_(value > 0 ? value : 1) {
    while (shift_ < 62 && (int64_t{1} << shift_) < value_) ++shift_;
    const auto d = static_cast<uint64_t>(value_), above = (uint64_t{1} << shift_) - d;
    factor_ = static_cast<uint64_t>((static_cast<Wide>(above) << 64) / d + 1);
    if (d >> 31 == 0) small_factor_ = static_cast<uint32_t>((above << 32) / d + 1);
  }

  GPU_BOTH int64_t value() const { return value_; }

  GPU_BOTH int64_t quotient(int64_t n) const {
    const auto u = static_cast<uint64_t>(n);
    const auto high = static_cast<uint64_t>((static_cast<Wide>(u) * factor_) >> 64);
    return static_cast<int64_t>((high + u) >> shift_);
  }
  GPU_BOTH int64_t remainder(int64_t n) const { return n - quotient(n) * value_; }

  // For numbers and a divisor that are below 2^31.
  GPU_BOTH uint32_t small_quotient(uint32_t n) const {
    const auto high = static_cast<uint32_t>((static_cast<uint64_t>(n) * small_factor_) >> 32);
    return (high + n) >> shift_;
  }

 private:
  int64_t value_ = 1;
  uint64_t factor_ = 1;
  uint32_t small_factor_ = 1, shift_ = 0;
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_DIVISOR_H_
