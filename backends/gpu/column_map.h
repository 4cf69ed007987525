// Kernels that compute each element of a [rows, columns] view from numbers that belong to its
// column. A thread owns V neighbouring columns, whose numbers it keeps in registers while it walks
// down the rows.
#ifndef BACKENDS_GPU_COLUMN_MAP_H_
#define BACKENDS_GPU_COLUMN_MAP_H_

#include "backends/gpu/column_grid.h"
#include "backends/gpu/rows.h"

namespace backends::gpu {

inline constexpr int kMapAhead = 4;              // rows that a thread loads before it stores one
inline constexpr int64_t kMostMapBlocks = 2048;  // of a grid

template <int V, typename Function>
GPU_KERNEL void __launch_bounds__(kBlock)
    column_map_kernel(int64_t rows, int64_t columns, int lanes, Function f) {
  const int lines = kBlock / lanes, line = static_cast<int>(threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) - line * lanes;
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * lanes + lane) * V;
  if (column >= columns) return;
  const auto state = f.template begin<V>(column);
  const int64_t step = static_cast<int64_t>(gridDim.y) * lines;
  int64_t row = static_cast<int64_t>(blockIdx.y) * lines + line;
  for (; row + (kMapAhead - 1) * step < rows; row += kMapAhead * step)
    f.template map<V, kMapAhead>(row, step, column, state);
  for (; row < rows; row += step) f.template map<V, 1>(row, step, column, state);
}

template <int V, typename Function>
void map_columns(const Launch& l, int64_t rows, int64_t columns, Function f, const char* name) {
  const int lanes = lanes_of_columns(columns, V);
  const int64_t across = divide_up(columns, int64_t{lanes} * V);
  const int64_t down = std::clamp<int64_t>(divide_up(rows, int64_t{kBlock / lanes} * kMapAhead), 1,
                                           std::max<int64_t>(kMostMapBlocks / across, 1));
  GPU_LAUNCH((column_map_kernel<V, Function>),
             dim3(static_cast<uint32_t>(across), static_cast<uint32_t>(down)), dim3(kBlock),
             l.stream, rows, columns, lanes, f);
  check_launch(name);
}

// Queues one kernel. `Function` has Element, the type of the elements; begin<V>(column), which
// returns the numbers of V columns; and map<V, R>(row, step, column, numbers), which computes the R
// rows row, row + step, ... of these columns.
template <typename Function>
void for_columns(const Launch& l, int64_t rows, int64_t columns, Function f, const char* name) {
  if (rows == 0 || columns == 0) return;
  constexpr int kWide = kVector<typename Function::Element>;
  if (columns % kWide == 0) {
    map_columns<kWide>(l, rows, columns, f, name);
  } else {
    map_columns<1>(l, rows, columns, f, name);
  }
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_COLUMN_MAP_H_
