// The random numbers of data sets, weights and generated text: Philox with a seed as its key.
#ifndef RUNTIME_DATA_PHILOX_H_
#define RUNTIME_DATA_PHILOX_H_

#include <cstdint>

#include "rt/sdk/philox.h"

namespace runtime::data {

using rt::sdk::PhiloxCounter;
using rt::sdk::PhiloxKey;

// What the random numbers of a seed are used for. It is the last number of the counter, so that two
// uses of one seed never draw the same numbers.
enum class RandomUse : uint32_t {
  kShuffle = 1,
  kSyntheticPool = 2,
  kSyntheticOffset = 3,
  kAugment = 4,
  kGeneration = 5,
  kRegion = 6,
  kMasking = 7,
  kPermutation = 8
};

// Returns block `block` of the random numbers that `seed` gives for `use` and `sub`, for example an
// epoch or a sample.
constexpr PhiloxCounter random_block(uint64_t seed, RandomUse use, uint32_t sub, uint64_t block) {
  return rt::sdk::philox4x32_10({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                 sub, static_cast<uint32_t>(use)},
                                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

}  // namespace runtime::data

#endif  // RUNTIME_DATA_PHILOX_H_
