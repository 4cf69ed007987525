// Launches kernels that hold rows in registers (held_row.h).
#ifndef BACKENDS_GPU_ROW_LAUNCH_H_
#define BACKENDS_GPU_ROW_LAUNCH_H_

#include <type_traits>

#include "backends/gpu/held_row.h"

namespace backends::gpu {

// Shared memory for block_reduce, for values and for indices, and a 0 that the compiler does not
// know (Chunk::forget).
template <typename C>
struct Scratch {
  C* values;
  int* indices;
  const volatile uint32_t* zero;
};

// Calls f(row, scratch) in all threads of a block, for each row. `kResident` blocks fit on a
// multiprocessor with 65,536 registers at the same time.
template <typename C, int kResident, typename Function>
GPU_KERNEL void __launch_bounds__(kBlock, kResident) held_rows_kernel(int64_t rows, Function f) {
  __shared__ C values[kBlock];
  __shared__ int indices[kBlock];
  __shared__ uint32_t zero;
  if (threadIdx.x == 0) zero = 0;
  __syncthreads();
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    f(row, Scratch<C>{values, indices, &zero});
  }
}

// The most packs for each thread that leave room for a second block on a multiprocessor: packs take
// 4 registers each, and a thread has 128.
inline constexpr int kPacksOfTwoBlocks = 25;
// Packs for each thread of a row that is too long for registers and is read part by part.
inline constexpr int kPacksOfPart = 8;

inline constexpr int64_t kMostRowBlocks = 1 << 20;  // of a grid

// Queues held_rows_kernel; `name` is for error messages. `packs` is the number of packs that a
// thread holds.
template <typename C, int packs, typename Function>
void for_held_rows(const Launch& l, int64_t rows, Function f, const char* name) {
  if (rows == 0) return;
  constexpr int kResident = packs > kPacksOfTwoBlocks ? 1 : 2;
  const auto blocks = static_cast<uint32_t>(std::min<int64_t>(rows, kMostRowBlocks));
  GPU_LAUNCH((held_rows_kernel<C, kResident, Function>), dim3(blocks), dim3(kBlock), l.stream, rows,
             f);
  check_launch(name);
}

// Calls body.operator()<packs, whole>() with the smallest of the given numbers of packs for each
// thread that hold a row of `width` elements of type T; if there is none, with kPacksOfPart and
// false. So it does for float64, which serves to check results: its rows are read again instead of
// compiling each kernel more often.
template <typename T, int kFirst, int... kMore, typename Body>
auto for_width(int64_t width, Body&& body) {
  if constexpr (!std::is_same_v<T, double>) {
    if (width / kPerPack<T> <= int64_t{kFirst} * kBlock) {
      return body.template operator()<kFirst, true>();
    }
    if constexpr (sizeof...(kMore) > 0) return for_width<T, kMore...>(width, body);
  }
  return body.template operator()<kPacksOfPart, false>();
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ROW_LAUNCH_H_
