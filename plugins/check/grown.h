// Structs of the contract with room behind them, to see how a plugin treats sizes that it does not
// know.
#ifndef PLUGINS_CHECK_GROWN_H_
#define PLUGINS_CHECK_GROWN_H_

#include <cstdint>
#include <cstring>

namespace plugins::check {

// A struct as a later host would have it: with bytes behind the fields that are known today.
template <typename T>
struct Grown {
  static constexpr uint32_t kMore = 64;
  static constexpr unsigned char kGuard = 0xA5;

  Grown() { std::memset(tail, kGuard, sizeof(tail)); }

  // Whether a byte behind the first `bytes` bytes of the struct, or of its tail, has changed from
  // what this constructor and the zeros of a new T left.
  bool written_beyond(uint32_t bytes) const {
    const T fresh{};
    const auto* const now = reinterpret_cast<const unsigned char*>(&value);
    const auto* const before = reinterpret_cast<const unsigned char*>(&fresh);
    if (bytes < sizeof(T) && std::memcmp(now + bytes, before + bytes, sizeof(T) - bytes) != 0)
      return true;
    for (const unsigned char byte : tail)
      if (byte != kGuard) return true;
    return false;
  }

  T value{};
  unsigned char tail[kMore];
};

}  // namespace plugins::check

#endif  // PLUGINS_CHECK_GROWN_H_
