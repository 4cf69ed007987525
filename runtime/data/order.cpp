// Shuffles by counter-based random numbers, so that the order depends on seed and epoch only.
#include "runtime/data/order.h"

#include <algorithm>
#include <bit>
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

constexpr uint64_t low_bits(int bits) { return (uint64_t{1} << bits) - 1; }

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

int64_t sample_at(int64_t place, int64_t samples, uint64_t seed, int64_t epoch) {
  constexpr uint64_t kRounds = 6;
  const auto size = static_cast<uint64_t>(samples);
  const int bits = std::max(2, static_cast<int>(std::bit_width(size - 1)));
  const int low = bits / 2, high = bits - low;
  const auto draw = [&](uint64_t half, uint64_t round) {
    const PhiloxCounter block = random_block(seed, RandomUse::kPermutation,
                                             static_cast<uint32_t>(epoch), round << 32 | half);
    return uint64_t{block[1]} << 32 | block[0];
  };
  auto x = static_cast<uint64_t>(place);
  do {
    for (uint64_t round = 0; round < kRounds; round += 2) {
      x ^= draw(x >> low, round) & low_bits(low);
      x ^= (draw(x & low_bits(low), round + 1) & low_bits(high)) << low;
    }
  } while (x >= size);
  return static_cast<int64_t>(x);
}

EpochOrder::EpochOrder(int64_t samples, bool shuffle, uint64_t seed, bool listed,
                       std::pmr::memory_resource* memory)
    : samples_(samples),
      shuffle_(shuffle),
      seed_(seed),
      list_(shuffle && (listed || samples <= kLongestList) ? static_cast<std::size_t>(samples) : 0,
            memory) {}

void EpochOrder::begin(int64_t epoch) {
  if (epoch_ == epoch) return;
  epoch_ = epoch;
  fill_epoch_order(list_, true, seed_, epoch);
}

}  // namespace runtime::data
