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

GPU_DEVICE int greater(int a, int b) { return a > b ? a : b; }

// Whether query i sees key j. Keys and queries that do not exist are not seen and see nothing;
// where they lie outside, their documents are not read.
template <bool kMasked, typename T, typename C>
GPU_DEVICE bool sees(const AttentionOperands<T>& o, const HeadMask<C, kMasked>& mask, int query,
                     int key) {
  const int own = query + static_cast<int>(o.s.shift());
  bool seen = key < o.keys() && query < o.queries() && (!o.s.causal || key <= own);
  if constexpr (kMasked) {
    seen = seen && (o.s.window == 0 || key > own - static_cast<int>(o.s.window)) &&
           mask.same(lesser(query, o.queries() - 1), lesser(key, o.keys() - 1));
  }
  return seen;
}

// Whether query i sees a key at all.
template <bool kMasked, typename T, typename C>
GPU_DEVICE bool sees_any(const AttentionOperands<T>& o, const HeadMask<C, kMasked>& mask,
                         int query) {
  if (query >= o.queries() || mask.is_padding(query)) return false;
  const int own = query + static_cast<int>(o.s.shift());
  if constexpr (kMasked) {
    if (mask.has_documents()) {
      GPU_ROLL for (int key = 0; key < o.keys(); ++key) {
        if (sees<kMasked>(o, mask, query, key)) return true;
      }
      return false;
    }
  }
  return o.keys() > 0 && (!o.s.causal || own >= 0);
}

// The keys that some query of a tile sees, as far as `causal` and the window say, are begin .. end
// - 1, and all of its queries see those before `all`, but for the window. Ranges of documents begin
// with a tile.
struct KeyRange {
  int begin, end, all;
};
template <typename Tiles, bool kMasked, typename T>
GPU_DEVICE KeyRange keys_seen(const AttentionOperands<T>& o, int outer) {
  const int own = outer + static_cast<int>(o.s.shift());
  KeyRange range{0, o.keys(), o.keys()};
  if (!o.s.causal) return range;
  range.end = lesser(range.end, own + Tiles::kOuter);
  range.all = lesser(range.all, own + 1);
  if (kMasked && o.s.window > 0) {
    range.begin =
        greater(own - static_cast<int>(o.s.window) + 1, 0) / kDocumentRows * kDocumentRows;
  }
  return range;
}

// The head (of the queries, or of the keys), the first outer row and the first column of the
// results of a block. Blocks of one head follow one another, so that its inner rows stay in the
// cache.
struct BlockPlace {
  int64_t line;
  int outer, column;
};

// Where the outer rows are keys, results have columns of keys and of values.
template <typename Function>
GPU_BOTH int64_t outer_rows(const AttentionShape& s) {
  return Function::kOfKeys ? s.keys : s.t;
}
GPU_BOTH inline int64_t widest(const AttentionShape& s) { return s.d > s.e ? s.d : s.e; }

// Calls f(item, tiles) for each item; all threads of a block work on an item together.
template <typename Tiles, typename Function>
GPU_KERNEL_OF(Tiles::kThreads)
void tiles_kernel(int64_t items, Function f) {
  __shared__ typename Tiles::Shared shared;
  const AttentionShape& s = f.o.s;
  const auto outer =
                 static_cast<int>((outer_rows<Function>(s) + Tiles::kOuter - 1) / Tiles::kOuter),
             groups = static_cast<int>((widest(s) + Tiles::kColumns - 1) / Tiles::kColumns);
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
  const int64_t items = s.n * (Function::kOfKeys ? s.key_heads : s.heads) *
                        divide_up(outer_rows<Function>(s), Tiles::kOuter) *
                        divide_up(widest(s), Tiles::kColumns);
  if (items == 0) return;
  const auto blocks = static_cast<uint32_t>(std::min<int64_t>(items, kMostTileBlocks));
  GPU_LAUNCH((tiles_kernel<Tiles, Function>), dim3(blocks), dim3(Tiles::kThreads), l.stream, items,
             f);
  check_launch(name);
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ATTENTION_TILES_H_
