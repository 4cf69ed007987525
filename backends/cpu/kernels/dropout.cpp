#include "backends/cpu/kernels/dropout.h"

#include <algorithm>

#include "backends/cpu/kernels/math.h"
#include "backends/cpu/parallel.h"

namespace backends::cpu::kernels {
namespace {

// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
CPU_INLINE void philox(uint32_t key_low, uint32_t key_high, uint32_t (&c)[4]) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = static_cast<uint64_t>(0xD2511F53u) * c[0];
    const uint64_t b = static_cast<uint64_t>(0xCD9E8D57u) * c[2];
    const uint32_t next0 = static_cast<uint32_t>(b >> 32) ^ c[1] ^ key_low;
    const uint32_t next2 = static_cast<uint32_t>(a >> 32) ^ c[3] ^ key_high;
    c[1] = static_cast<uint32_t>(b), c[3] = static_cast<uint32_t>(a);
    c[0] = next0, c[2] = next2;
    key_low += 0x9E3779B9u, key_high += 0xBB67AE85u;
  }
}

CPU_INLINE float keep(const DropoutKey& key, uint32_t random, float x) {
  const float u = static_cast<float>(static_cast<int32_t>(random >> 8)) * 0x1p-24f;
  return u >= key.probability ? x * key.scale : 0.0f;
}

// At most four elements, of one group.
CPU_INLINE void some(const DropoutKey& key, int64_t group, int64_t begin, const float* x, float* y,
                     int64_t count) {
  uint32_t c[4] = {static_cast<uint32_t>(group), key.sample, key.step, key.stream};
  philox(key.key_low, key.key_high, c);
  for (int64_t i = 0; i < count; ++i) y[i] = keep(key, c[begin + i], x[i]);
}

}  // namespace

CPU_KERNEL void dropout(const DropoutKey& given, int64_t first, const float* x, float* y,
                        int64_t count) {
  const DropoutKey key = given;
  const int64_t head = std::min((4 - first % 4) % 4, count);
  if (head > 0) some(key, first / 4, first % 4, x, y, head);
  first += head, x += head, y += head, count -= head;
  const int64_t groups = count / 4;
// y may be x, element for element: nothing is carried from one group to the next.
#pragma GCC ivdep
  for (int64_t g = 0; g < groups; ++g) {
    uint32_t c[4] = {static_cast<uint32_t>(first / 4 + g), key.sample, key.step, key.stream};
    philox(key.key_low, key.key_high, c);
    for (int i = 0; i < 4; ++i) y[4 * g + i] = keep(key, c[i], x[4 * g + i]);
  }
  const int64_t done = groups * 4;
  if (done < count) some(key, first / 4 + groups, 0, x + done, y + done, count - done);
}

}  // namespace backends::cpu::kernels
