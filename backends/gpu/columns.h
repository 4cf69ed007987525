// Sums over the rows of a [rows, columns] view, one for each column. Neighbouring threads read
// neighbouring columns. Chunks of rows are added up in their order, so the result has the same bits
// every time.
#ifndef BACKENDS_GPU_COLUMNS_H_
#define BACKENDS_GPU_COLUMNS_H_

#include "backends/gpu/rows.h"

namespace backends::gpu {

inline constexpr int kColumnLanes = 32;                  // columns of a block
inline constexpr int kRowLanes = kBlock / kColumnLanes;  // rows that a block reads at a time
inline constexpr int64_t kMostChunks = 256;              // of rows

// The number of rows in a chunk. It is a power of two, so that adding rows of zeros at the end
// seldom changes the order of the sum.
inline int64_t rows_of_chunk(int64_t rows) {
  int64_t size = 64;
  while (size * kMostChunks < rows) size *= 2;
  return size;
}
// The number of chunks that the rows are divided into; at least 1.
inline int64_t column_chunks(int64_t rows) {
  return std::max<int64_t>(divide_up(rows, rows_of_chunk(rows)), 1);
}
// Bytes of workspace that column_sums needs: [chunks][Width][columns] of C.
template <typename C>
uint64_t column_workspace(int64_t rows, int64_t columns, int width) {
  return static_cast<uint64_t>(column_chunks(rows) * columns * width) * sizeof(C);
}

// partial[chunk][k][column] = sum k of the function over the rows of the chunk.
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

// Calls finish(column, totals) for each column, in one thread.
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

// Queues two kernels. `Function` has start(), combine(a, b) and operator()(row, column, C
// (&sums)[Width]), which adds the terms of one element to `sums`. `workspace` has column_workspace
// bytes.
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

// Appends the kernels that column_sums queues to the list of a plan: `read` and `written` are the
// bytes of the operands, `partial` those of the workspace.
inline void column_work(std::vector<Work>& work, int64_t, int64_t columns, double read,
                        double written, uint64_t partial) {
  if (columns == 0) return;
  work.push_back({"sums of columns", read + static_cast<double>(partial)});
  work.push_back({"sums of chunks", static_cast<double>(partial) + written});
}

// The base of functions whose combination is addition.
template <typename C>
struct Adds {
  GPU_DEVICE C start() const { return C(0); }
  GPU_DEVICE C combine(C a, C b) const { return a + b; }
};

// Sums the elements of a column.
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
