// Philox-4x32-10, the counter-based generator that `dropout` is defined with: Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3", 2011. The same counter and key give the same four
// numbers on every machine and in every thread.
#ifndef RT_SDK_PHILOX_H_
#define RT_SDK_PHILOX_H_

#include <array>
#include <cstdint>

namespace rt::sdk {

// Selects random numbers by their position.
using PhiloxCounter = std::array<uint32_t, 4>;
// Selects the sequence of random numbers: its seed.
using PhiloxKey = std::array<uint32_t, 2>;

// Four random 32-bit numbers for a counter and a key.
constexpr PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;  // golden ratio, sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

}  // namespace rt::sdk

#endif  // RT_SDK_PHILOX_H_
