// embedding_backward. A block of threads computes a few rows of the table. It goes through all
// indices once, lists those that name one of its rows, in their order, and then adds up the rows of
// dy that the list names. So indices are read once for each block, which a cache serves, and dy and
// the table once in all.
#include "backends/gpu/embedding.h"
#include "backends/gpu/limits.h"
#include "backends/gpu/vectors.h"
#include "backends/gpu/work.h"

namespace backends::gpu {
namespace {

constexpr int kGroup = 32;                // threads that add up a row together
constexpr int kGroups = kBlock / kGroup;  // of a block
constexpr int kSeen = 4;                  // indices that a thread looks at together
constexpr int kListed = 1024;             // entries of a list that fit into shared memory
constexpr int kAhead = 8;                 // rows of dy that a thread loads before it adds the first
constexpr int64_t kMostRows = 16;         // of the table for a block

// An index that names a row of the block: the row, from the block's first one on, and its number.
struct Match {
  int32_t row;
  uint32_t number;
};

// The rows of the table from `first` on that a block computes.
struct Range {
  int64_t first, count;
};

// Is `mine` true in any thread of the block? Returns the answer in every thread and is a barrier
// like __syncthreads. HIP-CPU cannot tell, so it always returns true.
GPU_DEVICE bool block_any(bool mine) {
#if defined(__HIP_CPU_RT__)
  static_cast<void>(mine);
  __syncthreads();
  return true;
#else
  return __syncthreads_or(mine ? 1 : 0) != 0;
#endif
}

// The sum of `mine` of the threads before the calling one; `total` receives that of all threads.
GPU_DEVICE int sum_before(int mine, int* scratch, int& total) {
  const int t = static_cast<int>(threadIdx.x);
  scratch[t] = mine;
  __syncthreads();
  for (int step = 1; step < kBlock; step *= 2) {
    const int left = t >= step ? scratch[t - step] : 0;
    __syncthreads();
    scratch[t] += left;
    __syncthreads();
  }
  const int up_to_mine = scratch[t];
  total = scratch[kBlock - 1];
  __syncthreads();
  return up_to_mine - mine;
}

// The rows that kSeen neighbouring indices name, counted from range.first; -1 for those of others.
// Returns how many are in the range. `before`, if it is not null, is increased by the number of
// indices that name rows of the table before the range.
GPU_DEVICE int look(const int32_t* indices, const Table& s, const Range& range, int64_t from,
                    int32_t (&rows)[kSeen], int64_t* before) {
  Pack<int32_t, kSeen> seen{};
  if (from + kSeen <= s.count) seen = load<kSeen>(indices + from);
  int found = 0;
  GPU_UNROLL
  for (int k = 0; k < kSeen; ++k) {
    rows[k] = -1;
    if (from + k >= s.count) continue;
    if (from + kSeen > s.count) seen.value[k] = indices[from + k];
    const int64_t row = s.row_of(seen.value[k]), in = row - range.first;
    if (before != nullptr && row >= 0 && in < 0) ++*before;
    if (row < 0 || in < 0 || in >= range.count) continue;
    rows[k] = static_cast<int32_t>(in);
    ++found;
  }
  return found;
}

// Lists the indices of the range in their order and returns their number. Entries from `capacity`
// on are left out.
GPU_DEVICE int64_t list_matches(const int32_t* indices, const Table& s, const Range& range,
                                int* scratch, Match* list, int64_t capacity) {
  int64_t listed = 0;
  for (int64_t i0 = 0; i0 < s.count; i0 += kBlock * kSeen) {
    const int64_t from = i0 + static_cast<int64_t>(threadIdx.x) * kSeen;
    int32_t rows[kSeen];
    const int mine = look(indices, s, range, from, rows, nullptr);
    if (!block_any(mine > 0)) continue;  // nearly always in a large table
    int total = 0;
    int64_t at = listed + sum_before(mine, scratch, total);
    GPU_UNROLL
    for (int k = 0; k < kSeen; ++k) {
      if (rows[k] < 0) continue;
      if (at < capacity) list[at] = {rows[k], static_cast<uint32_t>(from + k)};
      ++at;
    }
    listed += total;
  }
  __syncthreads();
  return listed;
}

// The number of indices that name rows before the range, in every thread.
GPU_DEVICE int64_t count_before(const int32_t* indices, const Table& s, const Range& range,
                                int* scratch) {
  int64_t mine = 0;
  for (int64_t i = threadIdx.x * int64_t{kSeen}; i < s.count; i += kBlock * kSeen) {
    int32_t rows[kSeen];
    look(indices, s, range, i, rows, &mine);
  }
  return block_reduce<Sum>(static_cast<int>(mine), scratch);
}

// Adds up N columns, from `column` on, of the rows of dy that the list names for `row`.
template <typename T, int N>
GPU_DEVICE Pack<T, N> sum_of(const T* dy, const Table& s, const Match* list, int64_t listed,
                             int32_t row, int64_t column) {
  using C = Compute<T>;
  C sums[N] = {};
  for (int64_t k = 0; k < listed;) {
    Pack<T, N> loaded[kAhead] = {};
    bool valid[kAhead];
    GPU_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      // Eight entries of other rows at once, because each look takes a while.
      for (bool other = true; other && k + 8 <= listed;) {
        GPU_UNROLL
        for (int e = 0; e < 8; ++e) other = other && list[k + e].row != row;
        if (other) k += 8;
      }
      while (k < listed && list[k].row != row) ++k;
      valid[a] = k < listed;
      if (!valid[a]) continue;
      loaded[a] = load<N>(dy + static_cast<int64_t>(list[k].number) * s.width + column);
      ++k;
    }
    GPU_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      if (!valid[a]) continue;
      GPU_UNROLL
      for (int n = 0; n < N; ++n) sums[n] += static_cast<C>(loaded[a].value[n]);
    }
  }
  return narrow<T, N>(sums);
}

// `spill` has room for all indices. The parts of it that blocks use do not overlap.
template <typename T, int N>
GPU_KERNEL_OF(kBlock)
void embedding_backward_kernel(const int32_t* indices, const T* dy, T* dtable, Match* spill,
                               Table s, int64_t rows_of_block) {
  __shared__ int scratch[kBlock];
  __shared__ Match shared_list[kListed];
  const int group = static_cast<int>(threadIdx.x) / kGroup,
            lane = static_cast<int>(threadIdx.x) % kGroup;
  const int64_t chunks = (s.width + kGroup * N - 1) / (kGroup * N);  // of columns
  for (int64_t first = blockIdx.x * rows_of_block; first < s.rows;
       first += gridDim.x * rows_of_block) {
    const int64_t rest = s.rows - first;
    const Range range{first, rest < rows_of_block ? rest : rows_of_block};
    const Match* list = shared_list;
    const int64_t listed = list_matches(indices, s, range, scratch, shared_list, kListed);
    if (listed > kListed) {
      Match* const part = spill + count_before(indices, s, range, scratch);
      list_matches(indices, s, range, scratch, part, listed);
      list = part;
    }
    for (int64_t task = group; task < range.count * chunks; task += kGroups) {
      const int64_t row = task / chunks, column = (task - row * chunks) * kGroup * N + lane * N;
      if (column >= s.width) continue;
      store<N>(dtable + (first + row) * s.width + column,
               sum_of<T, N>(dy, s, list, listed, static_cast<int32_t>(row), column));
    }
    __syncthreads();  // the list of the next range uses the same memory
  }
}

}  // namespace

Kernel make_embedding_backward(const Properties& properties, const Operation& op) {
  const Table s = table_of(op, op.output(0));
  expect_at_most(op, s.count, INT32_MAX, "indices");
  // Few rows for a block if the table is small, so that all multiprocessors have some.
  const int64_t rows_of_block =
      std::clamp<int64_t>(s.rows / (8 * int64_t{properties.multiprocessors}), 1, kMostRows);
  const auto blocks =
      static_cast<uint32_t>(std::min<int64_t>(divide_up(s.rows, rows_of_block), 65535));
  return for_floating(op.input(1).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.workspace_bytes = static_cast<uint64_t>(s.count) * sizeof(Match);
    kernel.work = work_unless_empty(op, s.rows * s.width);
    kernel.run = [=](const Launch& l) {
      if (s.rows * s.width == 0) return;
      const auto launch = [&](auto kernel_of) {
        GPU_LAUNCH(kernel_of, dim3(blocks), dim3(kBlock), l.stream, l.input<int32_t>(0),
                   l.input<T>(1), l.output<T>(0), static_cast<Match*>(l.workspace), s,
                   rows_of_block);
        check_launch("embedding_backward");
      };
      if (s.width % kVector<T> == 0) return launch(embedding_backward_kernel<T, kVector<T>>);
      launch(embedding_backward_kernel<T, 1>);
    };
    return kernel;
  });
}

}  // namespace backends::gpu
