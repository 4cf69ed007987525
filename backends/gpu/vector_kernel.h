// Kernels in which each thread computes a few vectors.
#ifndef BACKENDS_GPU_VECTOR_KERNEL_H_
#define BACKENDS_GPU_VECTOR_KERNEL_H_

#include <initializer_list>

#include "backends/gpu/vectors.h"

namespace backends::gpu {

// Are all addresses multiples of 16? Those of operands are (rt_launch in rt/kernel.h), but parts of
// them need not be. Null addresses count as multiples.
inline bool aligned(std::initializer_list<const void*> addresses) {
  for (const void* address : addresses) {
    if (reinterpret_cast<uintptr_t>(address) % 16 != 0) return false;
  }
  return true;
}

// For each vector of N elements, of which there are `vectors`, and then for each of the rest of the
// `count` elements, calls f.load<N>(i, loaded), which fills an F::Loaded<N> for elements i to i + N
// - 1, and f.store<N>(i, loaded, state). f.begin() makes `state` in every thread of the block and
// may wait for all of them.
template <int N, typename F>
GPU_KERNEL_OF(kBlock)
void vector_kernel(int64_t vectors, int64_t count, F f) {
  constexpr int64_t kTile = static_cast<int64_t>(kBlock) * F::kAhead;
  const auto state = f.begin();
  GPU_ROLL
  for (int64_t first = blockIdx.x * kTile + threadIdx.x; first < vectors;
       first += gridDim.x * kTile) {
    typename F::template Loaded<N> loaded[F::kAhead] = {};
    GPU_UNROLL
    for (int a = 0; a < F::kAhead; ++a) {
      const int64_t v = first + a * kBlock;
      if (v < vectors) f.template load<N>(v * N, loaded[a]);
    }
    GPU_UNROLL
    for (int a = 0; a < F::kAhead; ++a) {
      const int64_t v = first + a * kBlock;
      if (v < vectors) f.template store<N>(v * N, loaded[a], state);
    }
  }
  if constexpr (!F::kWhole) {
    GPU_ROLL
    for (int64_t i = vectors * N + global_thread(); i < count; i += global_threads()) {
      typename F::template Loaded<1> loaded = {};
      f.template load<1>(i, loaded);
      f.template store<1>(i, loaded, state);
    }
  }
}

// The base of functions whose threads share nothing.
struct NoState {};
struct Stateless {
  static constexpr bool kWhole = false;  // is the number of elements always a multiple of N?
  static constexpr int kAhead = 2;
  GPU_DEVICE NoState begin() const { return {}; }
};

// The base of such functions of which the elements always are a multiple of N.
struct WholeVectors : Stateless {
  static constexpr bool kWhole = true;
};

// Queues vector_kernel for `count` elements, in vectors if `in_vectors` is true, else one by one.
// `name` is for error messages.
template <int N, typename F>
void for_vectors(const Launch& l, int64_t count, bool in_vectors, F f, const char* name) {
  if (count == 0) return;
  const int64_t vectors = in_vectors ? count / N : 0;
  const uint32_t blocks = grid_for(vectors > 0 ? vectors : count, F::kAhead);
  GPU_LAUNCH((vector_kernel<N, F>), dim3(blocks), dim3(kBlock), l.stream, vectors, count, f);
  check_launch(name);
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_VECTOR_KERNEL_H_
