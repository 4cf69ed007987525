// How the rows and columns of a [rows, columns] view are divided among the blocks and threads that
// sum up its columns or compute its elements column by column.
#ifndef BACKENDS_GPU_COLUMN_GRID_H_
#define BACKENDS_GPU_COLUMN_GRID_H_

#include "backends/gpu/limits.h"
#include "backends/gpu/vectors.h"
#include "backends/gpu/work.h"

namespace backends::gpu {

inline constexpr int kMostLanes = 32;   // threads of a block side by side
inline constexpr int kFinishLanes = 8;  // the same in the kernel that adds up the chunks

inline int64_t power_of_two(int64_t least) {
  int64_t size = 1;
  while (size < least) size *= 2;
  return size;
}

// The number of threads side by side if each owns `each` columns, a power of two.
inline int lanes_of_columns(int64_t columns, int each) {
  return static_cast<int>(std::min<int64_t>(power_of_two(divide_up(columns, each)), kMostLanes));
}

// The chunks of rows that blocks add up. Their size does not depend on the device, and it is a
// power of two, so that adding rows of zeros at the end seldom changes the order of a sum.
struct ColumnGrid {
  int64_t rows, columns, chunk_rows, chunks;  // at least one chunk

  ColumnGrid(int64_t row_count, int64_t column_count) : rows(row_count), columns(column_count) {
    constexpr int64_t kWidth = kMostLanes * 8;      // columns of a block, for elements of 16 bits
    constexpr int64_t kMostChunks = 1024;           // of all blocks
    constexpr int64_t kLeastElements = kBlock * 8;  // of a chunk, in elements of one thread: 8
    const int64_t width = std::clamp<int64_t>(columns, 1, kWidth);
    const int64_t most = std::max<int64_t>(kMostChunks / divide_up(columns + 1, kWidth), 16);
    chunk_rows = 64;
    while (chunk_rows * width < 8 * kLeastElements || chunk_rows * most < rows) chunk_rows *= 2;
    chunks = std::max<int64_t>(divide_up(rows, chunk_rows), 1);
  }
};

// Throws RT_ERROR_UNSUPPORTED if a grid has no room for so many columns.
inline void expect_columns(const Operation& op, int64_t columns) {
  expect_at_most(op, columns, kMostGridBlocks * kFinishLanes, "columns");
}

// Bytes of workspace that column_sums needs: [chunks][width][columns] of C; none for one chunk.
// Factories of kernels with column_sums call it; throws as expect_columns does.
template <typename C>
uint64_t column_workspace(const Operation& op, int64_t rows, int64_t columns, int width) {
  expect_columns(op, columns);
  const int64_t chunks = ColumnGrid(rows, columns).chunks;
  return chunks == 1 ? 0 : static_cast<uint64_t>(chunks * columns * width) * sizeof(C);
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_COLUMN_GRID_H_
