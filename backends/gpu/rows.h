// Kernels in which a block of threads computes one row, kernels with one thread per element, and
// sums over rows.
#ifndef BACKENDS_GPU_ROWS_H_
#define BACKENDS_GPU_ROWS_H_

#include "backends/gpu/device_code.h"

namespace backends::gpu {

// Calls f(row, scratch) in all threads of a block, for each row. scratch has room for block_reduce.
template <typename C, typename Function>
GPU_KERNEL void rows_kernel(int64_t rows, Function f) {
  __shared__ C scratch[kBlock];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) f(row, scratch);
}

// Queues rows_kernel; `name` is for error messages.
template <typename C, typename Function>
void for_rows(const Launch& l, int64_t rows, Function f, const char* name) {
  if (rows == 0) return;
  const auto blocks = static_cast<uint32_t>(std::min<int64_t>(rows, 65535));
  GPU_LAUNCH((rows_kernel<C, Function>), dim3(blocks), dim3(kBlock), l.stream, rows, f);
  check_launch(name);
}

// Calls f(i) in one thread for each i < count.
template <typename Function>
GPU_KERNEL void each_kernel(int64_t count, Function f) {
  for (int64_t i = global_thread(); i < count; i += global_threads()) f(i);
}

// Queues each_kernel; `name` is for error messages.
template <typename Function>
void for_each(const Launch& l, int64_t count, Function f, const char* name) {
  if (count == 0) return;
  GPU_LAUNCH((each_kernel<Function>), dim3(grid_for(count)), dim3(kBlock), l.stream, count, f);
  check_launch(name);
}

// The sum of f(i) over 0..count by all threads of a block, returned in every thread.
template <typename C, typename Function>
GPU_DEVICE C block_sum(int64_t count, C* scratch, Function f) {
  C sum = C(0);
  for (int64_t i = threadIdx.x; i < count; i += kBlock) sum += f(i);
  return block_reduce<Sum>(sum, scratch);
}

// to[k] = the sum over i of from[i * Width + k], for k < Width, in a fixed order.
template <typename C, int Width>
struct SumOf {
  const C* from;
  int64_t count;
  C* to[Width];
  GPU_DEVICE void operator()(int64_t, C* scratch) const {
    for (int k = 0; k < Width; ++k) {
      const C sum = block_sum(count, scratch, [&](int64_t i) { return from[i * Width + k]; });
      if (threadIdx.x == 0) *to[k] = sum;
    }
  }
};

// The largest element of a row and the sum of exp(element - largest), in every thread of the block.
template <typename C>
struct RowSum {
  C largest, sum;
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ROWS_H_
