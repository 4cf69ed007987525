// Philox-4x32-10 on the device: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
// It gives the same numbers as rt/sdk/philox.h.
#ifndef BACKENDS_GPU_PHILOX_H_
#define BACKENDS_GPU_PHILOX_H_

#include <cstdint>

#include "backends/gpu/api.h"

namespace backends::gpu {

// Sets `c` to the four random 32-bit numbers for a counter and a seed.
GPU_DEVICE void philox(const uint32_t (&counter)[4], uint64_t seed, uint32_t (&c)[4]) {
  for (int i = 0; i < 4; ++i) c[i] = counter[i];
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * c[0], product1 = uint64_t{0xCD9E8D57} * c[2];
    c[0] = static_cast<uint32_t>(product1 >> 32) ^ c[1] ^ key0;
    c[1] = static_cast<uint32_t>(product1);
    c[2] = static_cast<uint32_t>(product0 >> 32) ^ c[3] ^ key1;
    c[3] = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_PHILOX_H_
