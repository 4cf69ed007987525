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
template <int N, typename T>
GPU_DEVICE void store(T* to, const Pack<T, N>& pack) {
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
