// The functions of mma.h for HIP-CPU. The threads of a warp exchange what they hold through shared
// memory and place every element as the PTX ISA's tables say, so that code which passes its tests
// here gives NVIDIA's instructions the right elements.
#ifndef BACKENDS_GPU_MMA_PROCESSOR_H_
#define BACKENDS_GPU_MMA_PROCESSOR_H_

#include <cstring>

#include "backends/gpu/device_code.h"

namespace backends::gpu {

// What the threads of a warp show each other.
struct WarpFragments {
  float a[32][4][2], b[32][2][2];
  const uint16_t* rows[32];
  static WarpFragments& mine() {
    __shared__ WarpFragments all[kBlock / 32];
    return all[threadIdx.x / 32];
  }
};

template <typename T>
uint32_t pack(float first, float second) {
  return T(first).bits | static_cast<uint32_t>(T(second).bits) << 16;
}
template <typename T>
void unpack(float (&to)[2], uint32_t pair) {
  for (int i = 0; i < 2; ++i) {
    T element;
    element.bits = static_cast<uint16_t>(pair >> (16 * i));
    to[i] = static_cast<float>(element);
  }
}

template <typename T>
void multiply_fragments(float& c0, float& c1, float& c2, float& c3, const uint32_t (&a)[4],
                        uint32_t b0, uint32_t b1) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  WarpFragments& warp = WarpFragments::mine();
  for (int i = 0; i < 4; ++i) unpack<T>(warp.a[lane][i], a[i]);
  unpack<T>(warp.b[lane][0], b0);
  unpack<T>(warp.b[lane][1], b1);
  __syncthreads();
  float* const c[4] = {&c0, &c1, &c2, &c3};
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    float sum = 0;
    for (int k = 0; k < 16; ++k) {
      sum += warp.a[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2][k % 2] *
             warp.b[column * 4 + k % 8 / 2][k / 8][k % 2];
    }
    *c[i] += sum;
  }
  __syncthreads();
}

template <bool kTransposed>
void load_matrices(uint32_t (&to)[4], const uint16_t* row) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  WarpFragments& warp = WarpFragments::mine();
  warp.rows[lane] = row;
  __syncthreads();
  for (int m = 0; m < 4; ++m) {
    const auto element = [&](int i, int j) -> uint32_t {
      return kTransposed ? warp.rows[8 * m + j][i] : warp.rows[8 * m + i][j];
    };
    to[m] = element(lane / 4, lane % 4 * 2) | element(lane / 4, lane % 4 * 2 + 1) << 16;
  }
  __syncthreads();
}

inline void begin_copy(uint16_t* shared, const void* from, bool inside) {
  if (inside) {
    std::memcpy(shared, from, 16);
  } else {
    std::memset(shared, 0, 16);
  }
}
inline void end_copies() {}
template <int kPending>
void await_copies() {}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_MMA_PROCESSOR_H_
