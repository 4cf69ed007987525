// Sums over the rows of a [rows, columns] view, one for each column: neighbouring threads read
// neighbouring columns, chunks of rows are added up in their order, so the bits are the same every
// time.
#ifndef BACKENDS_GPU_COLUMNS_H_
#define BACKENDS_GPU_COLUMNS_H_

#include "backends/gpu/rows.h"

namespace backends::gpu {

inline constexpr int kColumnLanes = 32;                  // columns of a block
inline constexpr int kRowLanes = kBlock / kColumnLanes;  // rows that a block reads at once
inline constexpr int64_t kMostChunks = 256;              // of rows

// A power of two, so that zeros behind the last row seldom change what is added to what.
inline int64_t rows_of_chunk(int64_t rows) {
  int64_t size = 64;
  while (size * kMostChunks < rows) size *= 2;
  return size;
}
inline int64_t column_chunks(int64_t rows) {
  return std::max<int64_t>(divide_up(rows, rows_of_chunk(rows)), 1);
}
// Workspace of column_sums: [chunks][Width][columns].
template <typename C>
uint64_t column_workspace(int64_t rows, int64_t columns, int width) {
  return static_cast<uint64_t>(column_chunks(rows) * columns * width) * sizeof(C);
}

// partial[chunk][k][column] = sum over the chunk's rows of f(row, column, terms)'s k-th term.
template <typename C, int Width, typename Function>
GPU_KERNEL void column_kernel(int64_t rows, int64_t columns, int64_t chunk_rows, C* partial,
                              Function f) {
  __shared__ C scratch[kRowLanes][kColumnLanes];
  const int lane = static_cast<int>(threadIdx.x) % kColumnLanes,
            line = static_cast<int>(threadIdx.x) / kColumnLanes;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumnLanes + lane;
  const int64_t begin = blockIdx.y * chunk_rows;
  const int64_t end = begin + chunk_rows < rows ? begin + chunk_rows : rows;
  C sums[Width];
  for (int k = 0; k < Width; ++k) sums[k] = f.start();
  if (column < columns) {
    for (int64_t row = begin + line; row < end; row += kRowLanes) f(row, column, sums);
  }
  for (int k = 0; k < Width; ++k) {
    scratch[line][lane] = sums[k];
    __syncthreads();
    if (line == 0 && column < columns) {
      C sum = scratch[0][lane];
      for (int i = 1; i < kRowLanes; ++i) sum = f.combine(sum, scratch[i][lane]);
      partial[(static_cast<int64_t>(blockIdx.y) * Width + k) * columns + column] = sum;
    }
    __syncthreads();
  }
}

// finish(column, totals): one thread a column.
template <typename C, int Width, typename Function, typename Finish>
struct ColumnFinish {
  const C* partial;
  int64_t columns, chunks;
  Function f;
  Finish finish;
  GPU_DEVICE void operator()(int64_t column) const {
    C totals[Width];
    for (int k = 0; k < Width; ++k) {
      totals[k] = partial[k * columns + column];
      for (int64_t c = 1; c < chunks; ++c)
        totals[k] = f.combine(totals[k], partial[(c * Width + k) * columns + column]);
    }
    finish(column, totals);
  }
};

// Two launches. `Function` has start(), combine(a, b) and operator()(row, column, C (&sums)[Width])
// that adds to sums.
template <typename C, int Width, typename Function, typename Finish>
void column_sums(const Launch& l, int64_t rows, int64_t columns, C* workspace, Function f,
                 Finish finish, const char* name) {
  if (columns == 0) return;
  const int64_t chunks = column_chunks(rows);
  GPU_LAUNCH(
      (column_kernel<C, Width, Function>),
      dim3(static_cast<uint32_t>(divide_up(columns, kColumnLanes)), static_cast<uint32_t>(chunks)),
      dim3(kBlock), l.stream, rows, columns, rows_of_chunk(rows), workspace, f);
  check_launch(name);
  for_each(l, columns,
           ColumnFinish<C, Width, Function, Finish>{workspace, columns, chunks, f, finish}, name);
}

// For functions that add.
template <typename C>
struct Adds {
  GPU_DEVICE C start() const { return C(0); }
  GPU_DEVICE C combine(C a, C b) const { return a + b; }
};

// The sum of a column itself.
template <typename T>
struct ColumnOf : Adds<Compute<T>> {
  const T* x;
  int64_t columns;
  ColumnOf(const T* data, int64_t width) : x(data), columns(width) {}
  GPU_DEVICE void operator()(int64_t row, int64_t c, Compute<T> (&sums)[1]) const {
    sums[0] += static_cast<Compute<T>>(x[row * columns + c]);
  }
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_COLUMNS_H_
