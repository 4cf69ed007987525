// The kernels of attention, without a t x t matrix (Dao, "FlashAttention-2", 2023). A block of
// threads keeps a tile of rows of one head, the outer ones, and walks over tiles of the head's
// other rows, the inner ones. `Tiles` multiplies: FmaTiles (attention_fma.cu) or MmaTiles
// (attention_mma.cu), which have the same members. Each thread holds Scores[kRows][kScores] of a
// slice, which is a product of the outer rows with kSlice of the inner rows, and
// Result[kRows][kResults] of the outer rows; kLanes neighbouring threads share a row.
#ifndef BACKENDS_GPU_ATTENTION_TILES_H_
#define BACKENDS_GPU_ATTENTION_TILES_H_

#include "backends/gpu/attention_operands.h"
#include "backends/gpu/lanes.h"

namespace backends::gpu {

inline constexpr int64_t kMostTileBlocks = int64_t{1} << 22;  // of a grid; more items take turns

// The two operands whose tiles a block walks over together.
enum Inner { kFirst, kSecond };

// The head, the first outer row and the first column of the results of a block. Blocks of one head
// follow one another, so that its inner rows stay in the cache.
struct BlockPlace {
  int64_t line;
  int outer, column;
};

// Calls f(item, tiles) for each item; all threads of a block work on an item together.
template <typename Tiles, typename Function>
GPU_KERNEL_OF(Tiles::kThreads)
void tiles_kernel(int64_t items, Function f) {
  __shared__ typename Tiles::Shared shared;
  const AttentionShape& s = f.o.s;
  const auto outer = static_cast<int>((s.t + Tiles::kOuter - 1) / Tiles::kOuter),
             groups = static_cast<int>((s.d + Tiles::kColumns - 1) / Tiles::kColumns);
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const int64_t line = item / (outer * groups);
    const int rest = static_cast<int>(item - line * (outer * groups));
    // The last queries see the most keys and begin first. The first keys are seen by the most
    // queries.
    const int tile = Function::kLastFirst ? outer - 1 - rest / groups : rest / groups;
    const BlockPlace at = {line, tile * Tiles::kOuter, rest % groups * Tiles::kColumns};
    Tiles tiles(shared, f.o, at.column);
    f(tiles, at);
    __syncthreads();
  }
}

// Queues the kernel that computes f.
template <typename Tiles, typename Function>
void launch_tiles(const Launch& l, const Function& f, const char* name) {
  const AttentionShape& s = f.o.s;
  const int64_t items =
      s.n * s.heads * divide_up(s.t, Tiles::kOuter) * divide_up(s.d, Tiles::kColumns);
  if (items == 0) return;
  const auto blocks = static_cast<uint32_t>(std::min<int64_t>(items, kMostTileBlocks));
  GPU_LAUNCH((tiles_kernel<Tiles, Function>), dim3(blocks), dim3(Tiles::kThreads), l.stream, items,
             f);
  check_launch(name);
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ATTENTION_TILES_H_
