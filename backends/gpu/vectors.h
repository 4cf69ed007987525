// Vectors, which are neighbouring elements that a thread loads or stores at once.
#ifndef BACKENDS_GPU_VECTORS_H_
#define BACKENDS_GPU_VECTORS_H_

#include "backends/gpu/device_code.h"
#include "backends/gpu/unroll.h"

namespace backends::gpu {

// The number of elements in 16 bytes, the most that one instruction loads or stores.
template <typename T>
inline constexpr int kVector = static_cast<int>(16 / sizeof(T));

// N elements. Its address is a multiple of its size, or of 16.
template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T value[N];
};

template <int N, typename T>
GPU_DEVICE Pack<T, N> load(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
// `to` is in device memory.
template <int N, typename T>
GPU_DEVICE void store(T* to, const Pack<T, N>& pack) {
#if defined(__CUDA_ARCH__)
  // Without this, nvcc splits some stores into those of the words that it computed one by one.
  if constexpr (sizeof(pack) == sizeof(uint4)) {
    const uint4 words = __builtin_bit_cast(uint4, pack);
    asm volatile(
        "{ .reg .u64 address; cvta.to.global.u64 address, %0;"
        " st.global.v4.b32 [address], {%1, %2, %3, %4}; }"
        :
        : "l"(to), "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
        : "memory");
    return;
  }
#endif
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// The elements in the type that they are computed in, and back.
template <typename T, int N>
GPU_DEVICE void widen(const Pack<T, N>& from, Compute<T> (&to)[N]) {
  GPU_UNROLL
  for (int k = 0; k < N; ++k) to[k] = static_cast<Compute<T>>(from.value[k]);
}
template <typename T, int N>
GPU_DEVICE Pack<T, N> narrow(const Compute<T> (&from)[N]) {
  Pack<T, N> to;
  GPU_UNROLL
  for (int k = 0; k < N; ++k) to.value[k] = static_cast<T>(from[k]);
  return to;
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_VECTORS_H_
