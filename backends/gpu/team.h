// Teams: kTeam neighbouring threads of a block that compute a row together and keep it in
// registers. A team is a block, or at most 32 threads, which lie in one warp of 32 or 64.
#ifndef BACKENDS_GPU_TEAM_H_
#define BACKENDS_GPU_TEAM_H_

#include "backends/gpu/vectors.h"

namespace backends::gpu {

// Combines the `value`s of the threads of each team and returns the result in all of them. Every
// thread of the block has to call it. `scratch` has room for kBlock values and may be reused at
// once. The order is fixed, and the same with and without an exchange of registers.
template <typename How, int kTeam, typename T>
GPU_DEVICE T team_reduce(T value, T* scratch) {
  static_assert(kTeam == kBlock || (kTeam <= 32 && (kTeam & (kTeam - 1)) == 0));
  if constexpr (kTeam == kBlock) {
    return block_reduce<How>(value, scratch);
  } else {
#if defined(__HIP_CPU_RT__)
    const int t = static_cast<int>(threadIdx.x), lane = t % kTeam;
    scratch[t] = value;
    __syncthreads();
    for (int step = kTeam / 2; step > 0; step /= 2) {
      if (lane < step) scratch[t] = How::combine(scratch[t], scratch[t + step]);
      __syncthreads();
    }
    const T result = scratch[t - lane];
    __syncthreads();
    return result;
#else
    for (int mask = kTeam / 2; mask > 0; mask /= 2)
      value = How::combine(value, of_other_lane(value, mask));
    return value;
#endif
  }
}

// The columns of a row that one thread of a team owns: kPacks vectors, kTeam vectors apart. There
// are `vectors` vectors in a row, at most kTeam * kPacks.
template <typename T, int kTeam, int kPacks>
struct Share {
  static constexpr int kWide = kVector<T>;
  int lane;
  int vectors;
  // The first column of vector p, and whether the row has it.
  GPU_DEVICE int column(int p) const { return (lane + p * kTeam) * kWide; }
  GPU_DEVICE bool has(int p) const { return lane + p * kTeam < vectors; }
  // Loads the vectors that the row has, if `live`; the others become 0.
  GPU_DEVICE void load(const T* row, bool live, Pack<T, kWide> (&to)[kPacks]) const {
    for (int p = 0; p < kPacks; ++p)
      to[p] = live && has(p) ? gpu::load<kWide>(row + column(p)) : Pack<T, kWide>{};
  }
};

// Calls body.operator()<kTeam, kPacks>() for the smallest team and number of vectors per thread
// that hold a row of `columns` elements of type T, and returns true. Returns false if the row is
// too long, or if it cannot be loaded in whole vectors. A thread holds at most 32 elements.
template <typename T, typename Body>
bool with_team(int64_t columns, Body&& body) {
  constexpr int kMost = kVector<T> >= 8 ? 4 : 8;
  if (columns % kVector<T> != 0) return false;
  const int64_t vectors = columns / kVector<T>, each = divide_up(vectors, 32);
  if (each <= 1) return body.template operator()<32, 1>(), true;
  if (each <= 2) return body.template operator()<32, 2>(), true;
  if (each <= 3) return body.template operator()<32, 3>(), true;
  if (each <= 4) return body.template operator()<32, 4>(), true;
  if constexpr (kMost == 8) {
    if (each <= 6) return body.template operator()<32, 6>(), true;
    if (each <= 8) return body.template operator()<32, 8>(), true;
  }
  if (vectors <= kBlock) return body.template operator()<kBlock, 1>(), true;
  if (vectors <= 2 * kBlock) return body.template operator()<kBlock, 2>(), true;
  if (vectors <= 4 * kBlock) return body.template operator()<kBlock, 4>(), true;
  if constexpr (kMost == 8) {
    if (vectors <= 8 * kBlock) return body.template operator()<kBlock, 8>(), true;
  }
  return false;
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_TEAM_H_
