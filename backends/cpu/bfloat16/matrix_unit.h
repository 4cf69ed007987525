// Tiles of products of bfloat16 matrices by the matrix unit of newer Intel processors (AMX). A
// kernel packs or multiplies in one thread, and calls nothing outside its source.
#ifndef BACKENDS_CPU_BFLOAT16_MATRIX_UNIT_H_
#define BACKENDS_CPU_BFLOAT16_MATRIX_UNIT_H_

#include <cstdint>

namespace backends::cpu::bfloat16 {

// A matrix in memory: element (i, j) is data[i * row + j * column], and one of the two strides
// is 1.
struct Matrix {
  const uint16_t* data;
  int64_t row, column;
  Matrix at(int64_t i, int64_t j) const { return {data + i * row + j * column, row, column}; }
  Matrix transposed() const { return {data, column, row}; }
};

inline constexpr int64_t kTileSide = 32;     // rows and columns of one tile of a result
inline constexpr int64_t kDepthStep = 32;    // packed tiles are filled up with zeros to a multiple
inline constexpr int64_t kStepBytes = 2048;  // of one packed tile for each kDepthStep of its depth

// c [kTileSide][kTileSide] = left right, or c += left right. Rows of c are `c_row` floats apart.
// Denormal numbers count as zero.
struct Tile {
  const void *left, *right;
  int64_t depth;
  float* c;
  int64_t c_row;
  bool add;
};

// The bytes of one packed tile.
constexpr int64_t packed_bytes(int64_t depth) {
  return (depth + kDepthStep - 1) / kDepthStep * kStepBytes;
}

// The kernels of the matrix unit. Any thread may call them, with buffers of its own, aligned to 64
// bytes.
struct MatrixUnit {
  // Makes the calling thread ready for `multiply`, and undoes that.
  void (*begin)();
  void (*end)();
  // Packs tiles of kTileSide rows, or of so many columns, one behind another, and fills them up
  // with zeros. Several tiles at a time cost less than one after another.
  void (*pack_left)(const Matrix& a, int64_t rows, int64_t depth, void* packed);
  void (*pack_right)(const Matrix& b, int64_t depth, int64_t columns, void* packed);
  void (*multiply)(const Tile& tile);
};

// The kernels, which live as long as the process; nullptr if this processor has no matrix unit, or
// if the operating system does not let this process use it.
const MatrixUnit* matrix_unit();

}  // namespace backends::cpu::bfloat16

#endif  // BACKENDS_CPU_BFLOAT16_MATRIX_UNIT_H_
