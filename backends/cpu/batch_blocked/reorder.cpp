// Transposes blocks of 16 samples between the canonical and the batch-blocked layout, on several
// threads.
#include "backends/cpu/batch_blocked/reorder.h"

#include <algorithm>

#include "backends/cpu/parallel.h"

namespace backends::cpu::batch_blocked {

namespace {

// A thread reorders this many elements of each of 16 samples at a time, because 16 rows of 1 KiB
// and the block of 16 KiB that they make fit into the first-level cache.
constexpr int64_t kUnit = 256;

// Calls body(first sample, number of samples, first element, number of elements) for every sample
// block and range of elements.
template <typename Body>
void for_units(int64_t samples, int64_t elements, int threads, Body body) {
  const int64_t stretches = (elements + kUnit - 1) / kUnit;
  const int64_t units = sample_blocks(samples) * stretches;
  parallel_units(threads, units, [&](int64_t unit) {
    const int64_t sample = unit / stretches * kBlock, element = unit % stretches * kUnit;
    body(sample, static_cast<int32_t>(std::min<int64_t>(kBlock, samples - sample)), element,
         std::min(kUnit, elements - element));
  });
}

}  // namespace

void to_blocked(const float* canonical, int64_t samples, int64_t elements, float* blocked,
                int threads, const KernelTable& kernels) {
  for_units(samples, elements, threads, [&](int64_t s, int32_t count, int64_t e, int64_t length) {
    kernels.to_block(canonical + s * elements + e, elements, count, length,
                     blocked + s * elements + e * kBlock);
  });
}

void from_blocked(const float* blocked, int64_t samples, int64_t elements, float* canonical,
                  int threads, const KernelTable& kernels) {
  for_units(samples, elements, threads, [&](int64_t s, int32_t count, int64_t e, int64_t length) {
    kernels.from_block(blocked + s * elements + e * kBlock, length, count,
                       canonical + s * elements + e, elements);
  });
}

}  // namespace backends::cpu::batch_blocked
