// A product of matrices whose elements are computed from their indices, so that a convolution is a
// product with patches that never exist in memory (implicit GEMM; Chetlur et al., "cuDNN: efficient
// primitives for deep learning", 2014).
#ifndef BACKENDS_GPU_PRODUCT_H_
#define BACKENDS_GPU_PRODUCT_H_

#include <string>
#include <vector>

#include "backends/gpu/column_functions.h"
#include "backends/gpu/limits.h"
#include "backends/gpu/product_kernel.h"

namespace backends::gpu {

// Describes a product in which results that suit `Special` are computed in its tiles. A few hundred
// blocks keep the device busy. If there are fewer, a long k is divided among several blocks.
template <typename Special>
Extent extent_of(const Properties& properties, int64_t m, int64_t n, int64_t k, int64_t batch) {
  constexpr int64_t kLeastTerms = 256;  // of a split
  const bool special = Special::suits(m, n);
  const int64_t rows = special ? Special::kRows : SquareTile::kRows;
  const int64_t columns = special ? Special::kColumns : SquareTile::kColumns;
  const int64_t step = special ? Special::kDepth : SquareTile::kDepth;
  const int64_t blocks = divide_up(m, rows) * divide_up(n, columns) * batch;
  const int64_t wanted = blocks == 0 ? 1 : 2 * properties.multiprocessors / blocks;
  const int64_t splits = std::max<int64_t>(std::min(wanted, k / kLeastTerms), 1);
  const int64_t depth = std::max<int64_t>(divide_up(divide_up(k, splits), step), 1) * step;
  return {m, n, k, batch, std::max<int64_t>(divide_up(k, depth), 1), depth, special};
}

// Bytes of workspace that product() needs: [splits][batch][m][n], or none for one split.
template <typename C>
uint64_t workspace_of(const Extent& e) {
  return e.splits == 1 ? 0 : static_cast<uint64_t>(e.splits * e.results()) * sizeof(C);
}

// Lists the kernels that product() queues, if the operands are `left` and `right` bytes, and the
// result with the operands of its post-operations `result` bytes. A row of blocks reads the right
// operand at the same time, so it comes from memory once; the left one comes once for each column
// of blocks.
template <typename C, typename Special>
std::vector<Work> product_work(const Extent& e, double left, double right, double result,
                               const char* name) {
  if (e.results() == 0) return {};
  const int64_t columns = e.special ? Special::kColumns : SquareTile::kColumns;
  const double read = left * static_cast<double>(divide_up(e.n, columns)) + right;
  const double flops = 2.0 * static_cast<double>(e.results()) * static_cast<double>(e.k);
  if (e.splits == 1) return {{name, read + result, flops}};
  const auto partial = static_cast<double>(workspace_of<C>(e));
  return {{name, read + partial, flops}, {std::string(name) + " sum", partial + result, 0}};
}

template <typename C>
struct StorePartial {
  C* partial;
  int64_t batch_count, m, n;
  GPU_DEVICE void operator()(int64_t split, int64_t batch, int64_t i, int64_t j, C sum) const {
    partial[((split * batch_count + batch) * m + i) * n + j] = sum;
  }
};
// Stores the element with the row-major number `at` of all products.
template <typename C, typename Store>
struct StoreSum {
  int64_t m, n;
  Store store;
  GPU_DEVICE void operator()(int64_t at, C (&sum)[1]) const {
    const int64_t row = at / n, batch = row / m;
    store(0, batch, row - batch * m, at - row * n, sum[0]);
  }
};
// Adds up the partial results of one element in one thread.
template <typename C, typename Store>
struct AddSplits {
  const C* partial;
  int64_t splits, results;
  StoreSum<C, Store> finish;
  GPU_DEVICE void operator()(int64_t at) const {
    C sum[1] = {partial[at]};
    for (int64_t s = 1; s < splits; ++s) sum[0] += partial[s * results + at];
    finish(at, sum);
  }
};

// Throws RT_ERROR_UNSUPPORTED if a grid has no room for the tiles of the result.
template <typename Special>
void expect_tiles(const Operation& op, const Extent& e) {
  constexpr int64_t kMostAcross = 65535;  // in the second dimension of a grid
  const int64_t rows = e.special ? Special::kRows : SquareTile::kRows;
  const int64_t columns = e.special ? Special::kColumns : SquareTile::kColumns;
  expect_at_most(op, e.m, kMostGridBlocks * rows, "rows of a result");
  expect_at_most(op, e.n, kMostAcross * columns, "columns of a result");
}

template <typename C, typename Shape, typename A, typename B, typename Store>
void launch_product(const Launch& l, const Extent& e, A a, B b, Store store, const char* name) {
  const dim3 grid(static_cast<uint32_t>(divide_up(e.m, Shape::kRows)),
                  static_cast<uint32_t>(divide_up(e.n, Shape::kColumns)),
                  static_cast<uint32_t>(std::min<int64_t>(e.batch * e.splits, 65535)));
  GPU_LAUNCH((product_kernel<C, Shape, A, B, Store>), grid, dim3(kTileThreads), l.stream, e, a, b,
             store);
  check_launch(name);
}
template <typename C, typename Special, typename A, typename B, typename Store>
void launch_tiles(const Launch& l, const Extent& e, A a, B b, Store store, const char* name) {
  if (e.special) return launch_product<C, Special>(l, e, a, b, store, name);
  launch_product<C, SquareTile>(l, e, a, b, store, name);
}

// Queues c(batch, i, j) = sum over k of a(batch, i, k) b(batch, k, j), in one or two kernels
// (product_work tells), for an extent of the same `Special`. Sums are made in type C. An operand
// has
//   Line, line(batch, i)   what the elements of row i of a, or column i of b, have in common
//   term(k)                what those with the same k have in common
//   C value(line, term, real)   the element itself, or 0 if it is not real but behind the last k
//   bool along_k           whether neighbours along k are neighbours in memory
// store(split, batch, i, j, sum) stores an element of the result. l.workspace has workspace_of<C>
// bytes.
template <typename C, typename Special, typename A, typename B, typename Store>
void product(const Launch& l, const Extent& e, A a, B b, Store store, const char* name) {
  constexpr int64_t kManySplits = 16;  // several threads add those of one element
  if (e.results() == 0) return;
  if (e.splits == 1) return launch_tiles<C, Special>(l, e, a, b, store, name);
  auto* partial = static_cast<C*>(l.workspace);
  launch_tiles<C, Special>(l, e, a, b, StorePartial<C>{partial, e.batch, e.m, e.n}, name);
  const StoreSum<C, Store> finish{e.m, e.n, store};
  if (e.splits < kManySplits) {
    const AddSplits<C, Store> add{partial, e.splits, e.results(), finish};
    return for_each(l, e.results(), add, name);
  }
  finish_columns<C, 1>(l, e.results(), e.splits, partial, Adds<C, 1>{}, finish, name);
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_PRODUCT_H_
