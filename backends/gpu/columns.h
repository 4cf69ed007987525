// Sums over the rows of a [rows, columns] view, one for each column. A thread owns V neighbouring
// columns, which it loads at once, and neighbouring threads own neighbouring columns. Blocks add up
// chunks of rows, and chunks are added up in a fixed order, so the result has the same bits every
// time.
#ifndef BACKENDS_GPU_COLUMNS_H_
#define BACKENDS_GPU_COLUMNS_H_

#include "backends/gpu/column_grid.h"
#include "backends/gpu/rows.h"

namespace backends::gpu {

// Combines the totals of the threads of a block that own the same columns; those of line 0 receive
// the result. A block has `lines` lines of `lanes` threads. scratch: kBlock / 2 * Width * V.
template <typename C, int Width, int V, typename Function>
GPU_DEVICE void combine_lines(int lanes, C (&mine)[V][Width], C* scratch, const Function& f) {
  constexpr int kHalf = kBlock / 2;
  const int t = static_cast<int>(threadIdx.x);
  for (int step = kHalf; step >= lanes; step /= 2) {
    if (t >= step && t < 2 * step) {
      for (int v = 0; v < V; ++v)
        for (int k = 0; k < Width; ++k) scratch[(v * Width + k) * kHalf + t - step] = mine[v][k];
    }
    __syncthreads();
    if (t < step) {
      for (int v = 0; v < V; ++v) {
        C other[Width];
        for (int k = 0; k < Width; ++k) other[k] = scratch[(v * Width + k) * kHalf + t];
        f.combine(mine[v], other);
      }
    }
    __syncthreads();
  }
}

// partial[chunk][k][column] = sum k of the function over the rows of the chunk. If there is only
// one chunk, calls finish(column, sums) instead.
template <typename C, int Width, int V, typename Function, typename Finish>
GPU_KERNEL void __launch_bounds__(kBlock)
    column_kernel(int64_t rows, int64_t columns, int64_t chunk_rows, int lanes, C* partial,
                  Function f, Finish finish) {
  __shared__ C scratch[kBlock / 2 * Width * V];
  constexpr int kAhead = Function::kAhead;
  const int lines = kBlock / lanes, line = static_cast<int>(threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) - line * lanes;
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * lanes + lane) * V;
  const int64_t all = f.rows(rows), begin = blockIdx.y * chunk_rows;
  const int64_t end = begin + chunk_rows < all ? begin + chunk_rows : all;
  auto state = f.template start<V>(column < columns ? column : 0);
  if (column < columns) {
    int64_t row = begin + line;
    for (; row + (kAhead - 1) * lines < end; row += kAhead * lines)
      f.template add<V, kAhead>(row, lines, column, state);
    for (; row < end; row += lines) f.template add<V, 1>(row, lines, column, state);
  }
  C mine[V][Width];
  f.template totals<V>(state, mine);
  combine_lines<C, Width, V>(lanes, mine, scratch, f);
  if (line > 0 || column >= columns) return;
  for (int v = 0; v < V; ++v) {
    if (gridDim.y == 1) {
      finish(column + v, mine[v]);
    } else {
      for (int k = 0; k < Width; ++k)
        partial[(static_cast<int64_t>(blockIdx.y) * Width + k) * columns + column + v] = mine[v][k];
    }
  }
}

// Combines the chunks of kFinishLanes columns in a block, and calls finish(column, totals) for
// each.
template <typename C, int Width, typename Function, typename Finish>
GPU_KERNEL void __launch_bounds__(kBlock)
    finish_kernel(int64_t columns, int64_t chunks, const C* partial, Function f, Finish finish) {
  __shared__ C scratch[kBlock / 2 * Width];
  constexpr int kAhead = 4, kLines = kBlock / kFinishLanes;
  const int lane = static_cast<int>(threadIdx.x) % kFinishLanes;
  const int line = static_cast<int>(threadIdx.x) / kFinishLanes;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kFinishLanes + lane;
  C mine[1][Width];
  f.none(mine[0]);
  for (int64_t c = line; c < chunks && column < columns; c += kAhead * kLines) {
    C next[kAhead][Width];
    for (int i = 0; i < kAhead; ++i) {
      const int64_t chunk = c + i * kLines;
      f.none(next[i]);
      if (chunk >= chunks) continue;
      for (int k = 0; k < Width; ++k) next[i][k] = partial[(chunk * Width + k) * columns + column];
    }
    for (int i = 0; i < kAhead; ++i) f.combine(mine[0], next[i]);
  }
  combine_lines<C, Width, 1>(kFinishLanes, mine, scratch, f);
  if (line == 0 && column < columns) finish(column, mine[0]);
}

// Queues the second kernel of column_sums, for partial sums that another kernel has written.
template <typename C, int Width, typename Function, typename Finish>
void finish_columns(const Launch& l, int64_t columns, int64_t chunks, const C* partial, Function f,
                    Finish finish, const char* name) {
  GPU_LAUNCH((finish_kernel<C, Width, Function, Finish>),
             dim3(static_cast<uint32_t>(divide_up(columns, kFinishLanes))), dim3(kBlock), l.stream,
             columns, chunks, partial, f, finish);
  check_launch(name);
}

// Queues the first kernel of column_sums; a thread owns V columns.
template <typename C, int Width, int V, typename Function, typename Finish>
void start_columns(const Launch& l, const ColumnGrid& grid, C* workspace, Function f, Finish finish,
                   const char* name) {
  const int lanes = lanes_of_columns(grid.columns, V);
  GPU_LAUNCH((column_kernel<C, Width, V, Function, Finish>),
             dim3(static_cast<uint32_t>(divide_up(grid.columns, int64_t{lanes} * V)),
                  static_cast<uint32_t>(grid.chunks)),
             dim3(kBlock), l.stream, grid.rows, grid.columns, grid.chunk_rows, lanes, workspace, f,
             finish);
  check_launch(name);
}

// Queues one or two kernels (column_work tells). `Function` is like Adds and has add() in addition.
// `finish(column, C (&totals)[Width])` is called in one thread for each column. `workspace` has
// column_workspace bytes.
template <typename C, int Width, typename Function, typename Finish>
void column_sums(const Launch& l, int64_t rows, int64_t columns, C* workspace, Function f,
                 Finish finish, const char* name) {
  if (columns == 0) return;
  constexpr int kWide = kVector<typename Function::Element>;
  const ColumnGrid grid(rows, columns);
  if (columns % kWide == 0) {
    start_columns<C, Width, kWide>(l, grid, workspace, f, finish, name);
  } else {
    start_columns<C, Width, 1>(l, grid, workspace, f, finish, name);
  }
  if (grid.chunks > 1)
    finish_columns<C, Width>(l, columns, grid.chunks, workspace, f, finish, name);
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_COLUMNS_H_
