// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel Random Numbers: As Easy as
// 1, 2, 3" (SC 2011): the same counter and key give the same four numbers on every machine and in
// every thread.
#ifndef RUNTIME_DATA_PHILOX_H_
#define RUNTIME_DATA_PHILOX_H_

#include <array>
#include <cstdint>

namespace runtime::data {

// Counter (or result) and key of the generator, as numbers of 32 bits.
using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Returns four random numbers of 32 bits.
constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  constexpr int kRounds = 10;
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < kRounds; ++round) {
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

// What the random numbers of a seed are used for. It is the last number of the counter, so that two
// uses of one seed never draw the same numbers.
enum class RandomUse : uint32_t {
  kShuffle = 1,
  kSyntheticPool = 2,
  kSyntheticOffset = 3,
  kAugment = 4,
  kGeneration = 5
};

// Returns block `block` of the random numbers that `seed` gives for `use` and `sub`, for example an
// epoch or a sample.
constexpr PhiloxCounter random_block(uint64_t seed, RandomUse use, uint32_t sub, uint64_t block) {
  return philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), sub,
                     static_cast<uint32_t>(use)},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

}  // namespace runtime::data

#endif  // RUNTIME_DATA_PHILOX_H_
