// Code that all kernels share: element types, block-wide reductions, grid sizes.
#ifndef BACKENDS_GPU_DEVICE_CODE_H_
#define BACKENDS_GPU_DEVICE_CODE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backends/gpu/functions.h"
#include "backends/gpu/plan.h"
#include "backends/gpu/sixteen_bit.h"

namespace backends::gpu {

// The type that an element of type T is computed in.
template <typename T>
struct ComputeOf {
  using type = float;
};
template <>
struct ComputeOf<double> {
  using type = double;
};
template <typename T>
using Compute = typename ComputeOf<T>::type;

// Calls body.operator()<float>() or <double>(). For operations without a form in 16 bits.
template <typename Body>
auto for_wide(rt_dtype dtype, Body&& body) {
  return dtype == RT_FLOAT64 ? body.template operator()<double>()
                             : body.template operator()<float>();
}
// Calls body.operator()<T>() with the type of the elements.
template <typename Body>
auto for_floating(rt_dtype dtype, Body&& body) {
  if (dtype == RT_FLOAT16) return body.template operator()<Float16>();
  if (dtype == RT_BFLOAT16) return body.template operator()<BFloat16>();
  return for_wide(dtype, body);
}
// Calls body.operator()<function>() with the function of that number, the last one of the list if
// it is none of the others.
template <int32_t kFirst, int32_t... kOthers, typename Body>
auto for_function(int64_t function, Body&& body) {
  if constexpr (sizeof...(kOthers) > 0) {
    if (function != kFirst) return for_function<kOthers...>(function, body);
  }
  return body.template operator()<kFirst>();
}

inline constexpr int kBlock = 256;  // threads of a block
static_assert(kBlock <= GPU_MOST_THREADS);
inline constexpr int64_t kMostBlocks = 8192;  // of the grid of a grid-stride loop

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
// The number of blocks for a grid-stride loop over `count` elements with `each` elements per
// thread; at least one.
inline uint32_t grid_for(int64_t count, int64_t each = 1) {
  return static_cast<uint32_t>(
      std::clamp<int64_t>(divide_up(count, kBlock * each), 1, kMostBlocks));
}

// The number of the calling thread in its grid, and the number of threads in the grid.
GPU_DEVICE int64_t global_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
GPU_DEVICE int64_t global_threads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

// The ways in which block_reduce combines two values.
struct Sum {
  template <typename T>
  GPU_DEVICE static T combine(T a, T b) {
    return a + b;
  }
};
struct Max {
  template <typename T>
  GPU_DEVICE static T combine(T a, T b) {
    return a != a || a > b ? a : b;
  }  // NaN counts as larger
};

// Combines the `value`s of all kBlock threads and returns the result in every thread. `scratch` has
// room for kBlock values and may be reused at once. The order of combination is fixed, so the
// result has the same bits every time.
#if defined(__HIP_CPU_RT__)
template <typename How, typename T>
GPU_DEVICE T block_reduce(T value, T* scratch) {
  const int t = static_cast<int>(threadIdx.x);
  scratch[t] = value;
  __syncthreads();
  for (int step = kBlock / 2; step > 0; step /= 2) {
    if (t < step) scratch[t] = How::combine(scratch[t], scratch[t + step]);
    __syncthreads();
  }
  const T result = scratch[0];
  __syncthreads();
  return result;
}
#else
#if defined(BACKENDS_GPU_CUDA)
GPU_DEVICE constexpr int warp_size() { return 32; }
template <typename T>
GPU_DEVICE T of_other_lane(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
#else
GPU_DEVICE int warp_size() { return warpSize; }  // 32 or 64
template <typename T>
GPU_DEVICE T of_other_lane(T value, int mask) {
  return __shfl_xor(value, mask);
}
#endif
// The threads of a warp exchange registers first; then one value per warp is combined through
// shared memory.
template <typename How, typename T>
GPU_DEVICE T block_reduce(T value, T* scratch) {
  const int t = static_cast<int>(threadIdx.x), warp = warp_size();
  for (int mask = warp / 2; mask > 0; mask /= 2) {
    value = How::combine(value, of_other_lane(value, mask));
  }
  if (t % warp == 0) scratch[t / warp] = value;
  __syncthreads();
  T result = scratch[0];
  for (int w = 1; w < kBlock / warp; ++w) result = How::combine(result, scratch[w]);
  __syncthreads();
  return result;
}
#endif

// The last dimension of a tensor, and the product of all others.
inline int64_t last_dim(const rt_tensor_desc& t) { return t.rank > 0 ? t.dims[t.rank - 1] : 1; }
inline int64_t row_count(const rt_tensor_desc& t) {
  int64_t rows = 1;
  for (int32_t i = 0; i + 1 < t.rank; ++i) rows *= t.dims[i];
  return rows;
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_DEVICE_CODE_H_
