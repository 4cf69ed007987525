// Matrix products by our own kernels: blocking for the caches, and threads.
#ifndef BACKENDS_CPU_PRODUCTS_PRODUCT_H_
#define BACKENDS_CPU_PRODUCTS_PRODUCT_H_

#include <cstdint>
#include <functional>

#include "backends/cpu/isa.h"
#include "backends/cpu/products/kernels.h"

namespace backends::cpu::products {

// The kernels for this instruction set; the table lives as long as the process.
const KernelTable& kernels_for(Isa isa);

// The kernels that make float32 products of bfloat16 ones with the matrix unit; nullptr if this
// processor has none, or if the operating system does not let this process use it.
const KernelTable* split_kernels();

struct Sizes {
  int64_t rows, columns, depth;
};

// The work that is done to rows `row` to `row + rows` and columns `column` to `column + columns` of
// the result as soon as they are complete, while they are in the cache.
using Finish = std::function<void(int64_t row, int64_t rows, int64_t column, int64_t columns)>;

// How a product is divided among threads and cut for the caches. An element of the result is always
// summed by one thread and in the same order, so the result has the same bits for any number of
// threads.
class Product {
 public:
  Product(const KernelTable& kernels, const KernelTable& exact, const Sizes& sizes, int threads);

  // Bytes that `run` needs for packed tiles.
  uint64_t workspace_bytes() const;

  // Computes c [rows][columns] = a b. `workspace` is aligned to 64 bytes. `finish` may be empty; it
  // is called by several threads at once, for other elements. Where an operand has numbers that the
  // kernels cannot pack, the exact kernels do everything again. Allocates nothing.
  //
  // Equivalent to: cblas_sgemm with alpha 1 and beta 0.
  void run(const Matrix& a, const Matrix& b, float* c, void* workspace, const Finish& finish) const;

 private:
  struct Blocking;
  struct Call;
  struct Part;
  struct Rows;
  struct Block;

  int parts() const { return row_parts_ * column_parts_; }
  Part part(int number) const;
  Blocking blocking(const KernelTable& kernels) const;
  bool run(const KernelTable& kernels, const Call& call) const;
  bool pack_right(const KernelTable& kernels, const Call& call, const Blocking& blocking,
                  const Part& part, const Block& block) const;
  bool pack_left(const KernelTable& kernels, const Call& call, const Blocking& blocking,
                 const Rows& rows, const Block& block, char* left) const;
  void multiply_rows(const KernelTable& kernels, const Call& call, const Blocking& blocking,
                     const Part& part, const Rows& rows, const Block& block,
                     const char* left) const;
  bool multiply(const KernelTable& kernels, const Call& call, const Blocking& blocking,
                const Part& part, const Block& block) const;

  const KernelTable& kernels_;
  const KernelTable& exact_;
  Sizes sizes_;
  int threads_;
  int row_parts_ = 1, column_parts_ = 1;
};

}  // namespace backends::cpu::products

#endif  // BACKENDS_CPU_PRODUCTS_PRODUCT_H_
