// The kernel of product.h.
#ifndef BACKENDS_GPU_PRODUCT_KERNEL_H_
#define BACKENDS_GPU_PRODUCT_KERNEL_H_

#include "backends/gpu/product_tiles.h"

namespace backends::gpu {

// The sums of one thread: its elements of the result.
template <typename C>
struct TileSums {
  C sums[kEachRows][kEachColumns];

  GPU_DEVICE void clear() {
    GPU_UNROLL
    for (int r = 0; r < kEachRows; ++r) {
      GPU_UNROLL
      for (int s = 0; s < kEachColumns; ++s) sums[r][s] = C(0);
    }
  }
  // Adds kEachTerms terms of the operands in shared memory.
  GPU_DEVICE void add(const C* left, int left_pitch, const C* right, int right_pitch) {
    GPU_UNROLL
    for (int k = 0; k < kEachTerms; ++k) {
      const Pack<C, kEachRows> x = load<kEachRows>(left + k * left_pitch);
      const Pack<C, kEachColumns> y = load<kEachColumns>(right + k * right_pitch);
      GPU_UNROLL
      for (int r = 0; r < kEachRows; ++r) {
        GPU_UNROLL
        for (int s = 0; s < kEachColumns; ++s) sums[r][s] += x.value[r] * y.value[s];
      }
    }
  }
  // Stores the sums as a part of [rows][columns], or adds them to what is there.
  GPU_DEVICE void store(C* to, int columns, bool adds) const {
    GPU_UNROLL
    for (int r = 0; r < kEachRows; ++r) {
      GPU_UNROLL
      for (int s = 0; s < kEachColumns; ++s) {
        C& element = to[r * columns + s];
        element = adds ? element + sums[r][s] : sums[r][s];
      }
    }
  }
};

// A block keeps the operands of a step in shared memory and, at the end, its results in their
// place.
template <typename C, int Operands, int Results>
union alignas(16) TileMemory {
  C operands[Operands];
  C results[Results];
};

// Calls store(split, batch, i, j, sum) for each element of the partial results. The operands are as
// for product().
template <typename C, typename Shape, typename A, typename B, typename Store>
GPU_KERNEL void __launch_bounds__(kTileThreads, kTileBlocks)
    product_kernel(Extent e, A a, B b, Store store) {
  using Left = Carried<C, A, Shape::kRows, Shape::kDepth>;
  using Right = Carried<C, B, Shape::kColumns, Shape::kDepth>;
  __shared__ TileMemory<C, Left::kSize + Right::kSize, Shape::kElements> shared;
  C* const left = shared.operands;
  C* const right = left + Left::kSize;
  const int t = static_cast<int>(threadIdx.x), slice = t / Shape::kThreads;
  const int number = t % Shape::kThreads, first_term = slice * kEachTerms;
  const int ti = number / Shape::kAcross * kEachRows, tj = number % Shape::kAcross * kEachColumns;
  const int64_t i0 = static_cast<int64_t>(blockIdx.x) * Shape::kRows,
                j0 = static_cast<int64_t>(blockIdx.y) * Shape::kColumns;
  const int rows = e.m - i0 < Shape::kRows ? static_cast<int>(e.m - i0) : Shape::kRows;
  const int columns = e.n - j0 < Shape::kColumns ? static_cast<int>(e.n - j0) : Shape::kColumns;
  for (int64_t z = blockIdx.z; z < e.batch * e.splits; z += gridDim.z) {
    const int64_t batch = z / e.splits, split = z - batch * e.splits;
    const int64_t begin = split * e.depth, end = begin + e.depth < e.k ? begin + e.depth : e.k;
    TileSums<C> mine;
    mine.clear();
    Left of_a(a, batch, i0, e.m);
    Right of_b(b, batch, j0, e.n);
    of_a.load(a, begin, end);
    of_b.load(b, begin, end);
    GPU_ROLL
    for (int64_t k = begin; k < end; k += Shape::kDepth) {
      of_a.store(a, left);
      of_b.store(b, right);
      __syncthreads();
      if (k + Shape::kDepth < end) {
        of_a.load(a, k + Shape::kDepth, end);
        of_b.load(b, k + Shape::kDepth, end);
      }
      mine.add(left + first_term * Left::kPitch + ti, Left::kPitch,
               right + first_term * Right::kPitch + tj, Right::kPitch);
      __syncthreads();
    }
    for (int s = 0; s < Shape::kSlices; ++s) {
      if (slice == s)
        mine.store(shared.results + ti * Shape::kColumns + tj, Shape::kColumns, s > 0);
      __syncthreads();
    }
    GPU_ROLL
    for (int v = t; v < Shape::kElements; v += kTileThreads) {
      const int i = v / Shape::kColumns, j = v % Shape::kColumns;
      if (i < rows && j < columns) store(split, batch, i0 + i, j0 + j, shared.results[v]);
    }
    __syncthreads();
  }
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_PRODUCT_KERNEL_H_
