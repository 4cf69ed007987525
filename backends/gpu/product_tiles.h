// Which part of a product (product.h) a block of threads computes, and how its operands come to
// shared memory.
#ifndef BACKENDS_GPU_PRODUCT_TILES_H_
#define BACKENDS_GPU_PRODUCT_TILES_H_

#include "backends/gpu/vectors.h"

namespace backends::gpu {

inline constexpr int kTileThreads = kBlock;  // of a block
inline constexpr int kTileBlocks = 3;        // that a multiprocessor should have registers for
// Rows and columns of the result that a thread computes, and the terms of the sums that it adds
// between two barriers.
inline constexpr int kEachRows = 4, kEachColumns = 4, kEachTerms = 8;

// The rows and columns of the result that a block computes. If these do not keep all its threads
// busy, the block has several slices of threads, of which each adds other terms.
template <int Rows, int Columns>
struct Tile {
  static constexpr int kRows = Rows, kColumns = Columns, kElements = Rows * Columns;
  static constexpr int kAcross = Columns / kEachColumns;       // threads side by side
  static constexpr int kThreads = Rows / kEachRows * kAcross;  // of a slice
  static constexpr int kSlices = kTileThreads / kThreads;
  static constexpr int kDepth = kEachTerms * kSlices;  // terms in shared memory at a time
};
struct SquareTile : Tile<64, 64> {};
// For results of few columns.
struct TallTile : Tile<128, 32> {
  static bool suits(int64_t, int64_t n) { return n <= kColumns; }
};
// For results of few rows and few columns, which are sums of many terms.
struct SmallTile : Tile<32, 32> {
  static bool suits(int64_t m, int64_t n) { return m <= kRows && n <= kColumns; }
};

// The sizes of a product and how it is divided among blocks.
struct Extent {
  int64_t m, n, k;
  int64_t batch;   // number of products
  int64_t splits;  // of k; each split writes a partial result of its own
  int64_t depth;   // length of a split along k, a multiple of the tile's kDepth
  bool special;    // whether the tiles are those that suit the result instead of SquareTile
  int64_t results() const { return batch * m * n; }
};

// The elements of an operand that a thread brings to shared memory, as [kDepth][kPitch] there, of
// each kDepth terms. A line is a row of the left operand or a column of the right one. They are in
// registers in between, so that loads are under way while the block multiplies.
template <typename C, typename Operand, int kLines, int kDepth>
class Carried {
 public:
  static constexpr int kPitch = kLines + 4;  // vectors stay aligned
  static constexpr int kSize = kDepth * kPitch;

  GPU_DEVICE Carried(const Operand& from, int64_t batch, int64_t first, int64_t lines) {
    GPU_UNROLL
    for (int c = 0; c < kCount; ++c) {
      const int64_t line = first + line_of(from, c);
      lines_[c] = from.line(batch, line < lines ? line : lines - 1);
    }
  }
  // Loads from term `first` on. The terms from `end` on count as 0. The elements of a thread have
  // the same term (along_k) or the same line.
  GPU_DEVICE void load(const Operand& from, int64_t first, int64_t end) {
    const int real = end - first < kDepth ? static_cast<int>(end - first) : kDepth;
    if (from.along_k) {
      const int k = term_of(from, 0);
      const auto term = from.term(first + (k < real ? k : 0));
      GPU_UNROLL
      for (int c = 0; c < kCount; ++c) values_[c] = from.value(lines_[c], term, k < real);
    } else {
      GPU_UNROLL
      for (int c = 0; c < kCount; ++c) {
        const int k = term_of(from, c);
        const auto term = from.term(first + (k < real ? k : 0));
        values_[c] = from.value(lines_[0], term, k < real);
      }
    }
  }
  GPU_DEVICE void store(const Operand& from, C* shared) const {
    GPU_UNROLL
    for (int c = 0; c < kCount; ++c)
      shared[term_of(from, c) * kPitch + line_of(from, c)] = values_[c];
  }

 private:
  static constexpr int kCount = kLines * kDepth / kTileThreads;
  static_assert(kTileThreads % kLines == 0 && kTileThreads % kDepth == 0);
  // Neighbouring threads load neighbouring elements.
  GPU_DEVICE static int line_of(const Operand& from, int c) {
    const int number = static_cast<int>(threadIdx.x) + c * kTileThreads;
    return from.along_k ? number / kDepth : number % kLines;
  }
  GPU_DEVICE static int term_of(const Operand& from, int c) {
    const int number = static_cast<int>(threadIdx.x) + c * kTileThreads;
    return from.along_k ? number % kDepth : number / kLines;
  }
  typename Operand::Line lines_[kCount];
  C values_[kCount];
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_PRODUCT_TILES_H_
