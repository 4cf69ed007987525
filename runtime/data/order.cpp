// Shuffles by counter-based random numbers, so that the order depends on seed and epoch only.
#include "runtime/data/order.h"

#include <numeric>
#include <utility>

#include "runtime/data/philox.h"

namespace runtime::data {
namespace {

__extension__ using Uint128 = unsigned __int128;

// Maps 64 random bits to 0..bound-1 (Lemire, "Fast Random Integer Generation in an Interval", 2019,
// without the rejection step: the bias is below bound / 2^64).
uint64_t scale_to(uint64_t random, uint64_t bound) {
  return static_cast<uint64_t>((static_cast<Uint128>(random) * bound) >> 64);
}

}  // namespace

void fill_epoch_order(std::span<int64_t> order, bool shuffle, uint64_t seed, int64_t epoch) {
  std::iota(order.begin(), order.end(), int64_t{0});
  if (!shuffle) return;
  PhiloxCounter block = {};
  uint64_t drawn = 0;
  // Fisher-Yates shuffle from the back; each Philox block gives two draws of 64 bits.
  for (std::size_t left = order.size(); left > 1; --left, ++drawn) {
    const std::size_t half = drawn % 2;
    if (half == 0) {
      block = random_block(seed, RandomUse::kShuffle, static_cast<uint32_t>(epoch), drawn / 2);
    }
    const uint64_t random = uint64_t{block[2 * half]} << 32 | block[2 * half + 1];
    std::swap(order[left - 1], order[scale_to(random, left)]);
  }
}

}  // namespace runtime::data
