// The inner kernels of matrix products; there is one table for each instruction set. A kernel packs
// or multiplies one tile in one thread, and calls nothing outside its source.
#ifndef BACKENDS_CPU_PRODUCTS_KERNELS_H_
#define BACKENDS_CPU_PRODUCTS_KERNELS_H_

#include <cstdint>

namespace backends::cpu::products {

// A matrix in memory: element (i, j) is data[i * row + j * column], and one of the two strides
// is 1.
struct Matrix {
  const float* data;
  int64_t row, column;
  Matrix at(int64_t i, int64_t j) const { return {data + i * row + j * column, row, column}; }
  Matrix transposed() const { return {data, column, row}; }
};

// c [rows][columns] = left right, or c += left right. `left` was packed with the same number of
// rows.
struct Tile {
  const void *left, *right;
  int64_t depth;
  float* c;
  int64_t c_row;
  int64_t rows, columns;
  bool add;
  // Memory that is read soon, of which the matrix unit's kernel asks for 24 times `lines` (0, 1, 2
  // or 4) lines of 64 bytes in each step of depth.
  const char* ahead;
  int lines;
};

// The kernels of one instruction set. Any thread may call them, with buffers of its own, aligned to
// 64 bytes.
struct KernelTable {
  const char* name;
  int64_t rows, columns;  // of the largest tile
  int64_t depth_step;     // packed tiles are filled up with zeros to a multiple of this depth
  int64_t bytes;          // of one packed element
  // How many rows of the left operand, and how much depth, are packed at a time; and how much depth
  // if the right operand is small.
  int64_t rows_in_cache, depth_in_cache, depth_if_small;
  // Makes the calling thread ready for `multiply`, and undoes that. May be null.
  void (*begin)();
  void (*end)();
  // Packs a tile of `rows` rows (at most KernelTable::rows) or of `columns` columns (at most
  // KernelTable::columns). May write up to 64 bytes behind the packed tile. The answer is false if
  // a number is too large to be packed (infinite, say, or no number); the packed tile is then
  // unusable.
  bool (*pack_left)(const Matrix& a, int64_t rows, int64_t depth, void* packed);
  bool (*pack_right)(const Matrix& b, int64_t depth, int64_t columns, void* packed);
  void (*multiply)(const Tile& tile);
};

// A tile of products of split numbers. Row r of the left operand begins at left[r / 16] +
// r % 16 * row_bytes; for each of its taps it goes on at that tap's offset, and there with `steps`
// steps of depth, each of which has three parts.
struct SplitTile {
  const char* left[2];
  const int64_t* taps;  // offsets in bytes
  int64_t tap_count, steps;
  int64_t row_bytes, step_bytes, part_bytes;
  const void* right;  // packed
  float* c;           // the result, see Tile
  int64_t c_row, rows, columns;
  bool add;
  // See Tile.
  const char* ahead;
  int lines;
};

// What the matrix unit needs for products whose right operand was packed long before, and whose
// left operand are patches of an image. A split pixel has its channels in steps of 32, each with
// three parts one after the other.
struct SplitKernels {
  const KernelTable* table;
  int64_t step, step_bytes;  // channels and bytes of one step of a split pixel
  // Splits the channels of one pixel. The answer is false if a number cannot be split.
  bool (*split)(const float* pixel, int64_t channels, void* to);
  // Packs a left tile of `rows` rows with `steps` steps of depth from pieces of split pixels.
  void (*gather)(const char* const* pieces, int64_t rows, int64_t steps, void* packed);
  // Puts the numbers of a packed right tile together again: to [steps * 32][columns].
  void (*join)(const void* packed_right, int64_t steps, float* to);
  void (*multiply)(const SplitTile& tile);
};

}  // namespace backends::cpu::products

#endif  // BACKENDS_CPU_PRODUCTS_KERNELS_H_
