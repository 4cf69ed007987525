#include "backends/cpu/products/product.h"

#include <omp.h>

#include <algorithm>

namespace backends::cpu::products {
namespace {

constexpr int64_t kPanelsAtOnce = 12;  // panels of columns after which finished rows are handed on
constexpr int64_t kLineFloats = 16;    // of a cache line

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

// The beginning of piece `i` of `pieces` pieces of `count` that differ by at most one.
int64_t piece(int64_t count, int64_t pieces, int64_t i) { return count * i / pieces; }

// The length of each block when `count` is cut into the fewest blocks of at most `most`, each a
// multiple of `step`.
int64_t even_block(int64_t count, int64_t most, int64_t step) {
  return std::min(most, round_up(divide_up(count, divide_up(count, most)), step));
}

// How a thread's part is cut for the caches.
struct Blocking {
  int64_t rows, depth;  // at most, of the block of the left operand that is packed at a time
  uint64_t left_tile;   // bytes of one packed tile,
  uint64_t left_bytes, right_bytes;  // of a packed block and of a packed panel

  Blocking(const KernelTable& k, int64_t part_rows, int64_t full_depth)
      : rows(std::min(k.rows_in_cache, part_rows)),
        depth(even_block(full_depth, k.depth_in_cache, 32)) {
    const int64_t packed_depth = round_up(std::min(depth, full_depth), k.depth_step);
    left_tile = static_cast<uint64_t>(round_up(k.rows * packed_depth * k.bytes, 64));
    left_bytes = static_cast<uint64_t>(divide_up(rows, k.rows)) * left_tile + 64;
    right_bytes = static_cast<uint64_t>(round_up(k.columns * packed_depth * k.bytes, 64)) + 64;
  }
};

// Asks for the lines of the next panel of the right operand, so that they are near when it is
// packed. Each tile asks for its share, because there are fewer line buffers than a panel has
// lines.
struct Prefetch {
  Matrix from{nullptr, 0, 0};
  int64_t lines = 0, length = 0;  // lines of memory along the strided dimension, and floats in each

  void share(int64_t i, int64_t pieces) const {
    for (int64_t line = piece(lines, pieces, i); line < piece(lines, pieces, i + 1); ++line) {
      const float* p = from.data + line * (from.column == 1 ? from.row : from.column);
      for (int64_t x = 0; x < length; x += kLineFloats) __builtin_prefetch(p + x, 0, 2);
    }
  }
};

Prefetch prefetch(const Matrix& b, int64_t depth, int64_t columns) {
  if (columns <= 0) return {};
  return b.column == 1 ? Prefetch{b, depth, columns} : Prefetch{b, columns, depth};
}

}  // namespace

Product::Product(const KernelTable& kernels, const KernelTable& exact, const Sizes& sizes,
                 int threads)
    : kernels_(kernels), exact_(exact), sizes_(sizes) {
  // Every thread packs what it multiplies, so its part should be near to a square.
  double best = 0;
  for (int rows = 1; rows <= threads; ++rows) {
    if (threads % rows != 0) continue;
    const int columns = threads / rows;
    const int64_t height = round_up(divide_up(sizes.rows, rows), 4);
    const int64_t width = round_up(divide_up(sizes.columns, columns), kernels.columns);
    const double cost =
        static_cast<double>(width * height) *
        (1.0 + 8.0 / static_cast<double>(width) + 8.0 / static_cast<double>(height));
    if (best == 0 || cost < best) best = cost, row_parts_ = rows, column_parts_ = columns;
  }
  const int64_t height = divide_up(sizes.rows, row_parts_);
  for (const KernelTable* k : {&kernels_, &exact_}) {
    const Blocking blocking(*k, height, sizes.depth);
    part_bytes_ = std::max(part_bytes_, blocking.left_bytes + blocking.right_bytes);
  }
}

Product::Part Product::part(int number) const {
  const int row = number / column_parts_, column = number % column_parts_;
  const int64_t panels = divide_up(sizes_.columns, kernels_.columns);
  const int64_t top = piece(sizes_.rows, row_parts_, row);
  const int64_t left =
      std::min(sizes_.columns, piece(panels, column_parts_, column) * kernels_.columns);
  const int64_t right =
      std::min(sizes_.columns, piece(panels, column_parts_, column + 1) * kernels_.columns);
  return {top, piece(sizes_.rows, row_parts_, row + 1) - top, left, right - left};
}

void Product::run(const Matrix& a, const Matrix& b, float* c, void* workspace,
                  const Finish& finish) const {
  const auto work = [&](int number) {
    const Part own = part(number);
    if (own.rows <= 0 || own.columns <= 0) return;
    auto* memory = static_cast<char*>(workspace) + static_cast<uint64_t>(number) * part_bytes_;
    if (!run_part(kernels_, own, a, b, c, memory, finish))
      run_part(exact_, own, a, b, c, memory, finish);
  };
  if (parts() == 1) return work(0);
#pragma omp parallel num_threads(parts())
  for (int number = omp_get_thread_num(); number < parts(); number += omp_get_num_threads()) {
    work(number);
  }
}

bool Product::run_part(const KernelTable& k, const Part& part, const Matrix& a, const Matrix& b,
                       float* c, char* workspace, const Finish& finish) const {
  const Blocking blocking(k, part.rows, sizes_.depth);
  char* const packed_left = workspace;
  char* const packed_right = workspace + blocking.left_bytes;
  if (k.begin != nullptr) k.begin();
  bool good = true;
  const int64_t blocks = divide_up(part.rows, blocking.rows);
  for (int64_t block_number = 0; block_number < blocks && good; ++block_number) {
    const int64_t row = piece(part.rows, blocks, block_number);
    const int64_t rows = piece(part.rows, blocks, block_number + 1) - row,
                  tiles = divide_up(rows, k.rows);
    for (int64_t deep = 0; deep < sizes_.depth && good; deep += blocking.depth) {
      const int64_t depth = std::min(blocking.depth, sizes_.depth - deep);
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t from = piece(rows, tiles, t), to = piece(rows, tiles, t + 1);
        good &= k.pack_left(a.at(part.row + row + from, deep), to - from, depth,
                            packed_left + t * blocking.left_tile);
      }
      int64_t finished = 0;
      for (int64_t column = 0; column < part.columns && good; column += k.columns) {
        const int64_t columns = std::min(k.columns, part.columns - column),
                      next = column + k.columns;
        good &= k.pack_right(b.at(deep, part.column + column), depth, columns, packed_right);
        if (!good) break;
        const Prefetch ahead = prefetch(b.at(deep, part.column + next), depth,
                                        std::min(k.columns, part.columns - next));
        float* const block = c + (part.row + row) * sizes_.columns + part.column + column;
        for (int64_t t = 0; t < tiles; ++t) {
          const int64_t from = piece(rows, tiles, t), to = piece(rows, tiles, t + 1);
          ahead.share(t, tiles);
          k.multiply({packed_left + t * blocking.left_tile, packed_right, depth,
                      block + from * sizes_.columns, sizes_.columns, to - from, columns, deep > 0});
        }
        const bool last = next >= part.columns || next - finished >= kPanelsAtOnce * k.columns;
        if (finish && last && deep + depth == sizes_.depth) {
          const int64_t end = std::min(next, part.columns);
          finish(part.row + row, rows, part.column + finished, end - finished);
          finished = end;
        }
      }
    }
  }
  if (k.end != nullptr) k.end();
  return good;
}

}  // namespace backends::cpu::products
