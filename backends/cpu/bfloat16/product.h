// Products of bfloat16 matrices by the matrix unit: blocking for the caches, and threads.
#ifndef BACKENDS_CPU_BFLOAT16_PRODUCT_H_
#define BACKENDS_CPU_BFLOAT16_PRODUCT_H_

#include <cstdint>
#include <functional>

#include "backends/cpu/bfloat16/matrix_unit.h"

namespace backends::cpu::bfloat16 {

struct Sizes {
  int64_t rows, columns, depth;
};

// A rectangle of the result, complete and in the cache: rows of `values` are `stride` floats apart.
struct Block {
  float* values;
  int64_t stride;
  int64_t row, rows, column, columns;
};

// Receives each block of a result. Several threads call it at once, for different blocks.
using Finish = std::function<void(const Block& block)>;

// How a product is divided among threads. An element is summed by one thread in an order that
// depends on the depth only, so the sums have the same bits for any number of threads.
class Product {
 public:
  // With `row_sums`, run() also makes the sums over the rows of a (over the depth).
  Product(const MatrixUnit& unit, const Sizes& sizes, int threads, bool row_sums);

  // Bytes that `run` needs for packed tiles and sums.
  uint64_t workspace_bytes() const {
    return right_bytes() + static_cast<uint64_t>(parts()) * part_bytes_;
  }

  // Computes a b and hands it to `finish` block by block. `workspace` is aligned to 64 bytes. If
  // the product has row sums, `sums` receives one for each row. Allocates nothing.
  void run(const Matrix& a, const Matrix& b, float* sums, void* workspace,
           const Finish& finish) const;

 private:
  // The part of a thread: rows and columns of the result, and the panels of the right operand that
  // the thread packs for all.
  struct Part {
    int64_t row, rows, column, columns, panel, panels;
  };
  // The workspace of a part, and the packed right operand.
  struct Memory {
    char *left, *right;
    float* values;
  };
  int parts() const { return row_parts_ * column_parts_; }
  Part part(int number) const;
  uint64_t right_bytes() const;
  Memory memory(void* workspace, int number) const;
  void pack_right(const Part& part, const Matrix& b, const Memory& memory) const;
  void run_part(const Part& part, const Matrix& a, float* sums, const Memory& memory,
                const Finish& finish) const;
  void run_panel(const Memory& memory, const char* right, int64_t rows, float* c) const;
  void sum_rows(const Memory& memory, int64_t rows, float* sums) const;

  const MatrixUnit& unit_;
  Sizes sizes_;
  bool row_sums_;
  int row_parts_ = 1, column_parts_ = 1;
  int64_t block_rows_;  // rows of the left operand that are packed at a time, at full depth
  uint64_t part_bytes_ = 0;
};

}  // namespace backends::cpu::bfloat16

#endif  // BACKENDS_CPU_BFLOAT16_PRODUCT_H_
