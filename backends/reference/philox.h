// Philox-4x32-10, a counter-based random number generator: Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3", 2011.
#ifndef BACKENDS_REFERENCE_PHILOX_H_
#define BACKENDS_REFERENCE_PHILOX_H_

#include <array>
#include <cstdint>

namespace backends::reference {

// What selects the random numbers: a counter for the position, and a key for the seed.
using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Four random 32-bit numbers for a counter and a key.
inline PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;  // golden ratio, sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_PHILOX_H_
