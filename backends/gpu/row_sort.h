// Sorts the indices of an embedding by the row of the table that they name; those of one row keep
// their order. It is a radix sort by digits, the lowest first, of two kernels for each digit.
// Nothing is added atomically, so the result does not depend on which block runs first.
#ifndef BACKENDS_GPU_ROW_SORT_H_
#define BACKENDS_GPU_ROW_SORT_H_

#include <bit>

#include "backends/gpu/embedding.h"
#include "backends/gpu/work.h"

namespace backends::gpu {

inline constexpr int kDigitBits = 9;  // two digits are enough for tables of up to 262,143 rows
inline constexpr int kDigits = 1 << kDigitBits;
static_assert(kDigits == 2 * kBlock);            // each thread sees to two neighbouring digits
inline constexpr int kGroup = 32;                // threads that go through neighbouring indices
inline constexpr int kGroups = kBlock / kGroup;  // of a block
// More blocks are not launched for fewer indices of a group, nor more in all: each reads the counts
// of all of them.
inline constexpr int64_t kLeastShare = 4 * kGroup, kMostSortBlocks = 128;
inline constexpr int kCounted = kGroups + 1;  // lines of counts of a block: its groups, and all

// An index: the row of the table that it names, or no_row() if it names none, and its place among
// the indices.
struct Named {
  uint32_t row, number;
};

// A number behind all rows that an index can name.
GPU_BOTH inline uint32_t no_row(const Table& table) {
  constexpr int64_t kMost = int64_t{1} << 31;
  return static_cast<uint32_t>(table.rows < kMost ? table.rows : kMost);
}

// How a list of indices is shared: each group of each block has `share` neighbours, a multiple of
// kGroup; the last ones have fewer or none.
struct SortGrid {
  int64_t count, share;
  uint32_t blocks;
  int digits;

  explicit SortGrid(const Table& table) : count(table.count) {
    const int64_t most = std::clamp<int64_t>(count / (kLeastShare * kGroups), 1, kMostSortBlocks);
    share = divide_up(divide_up(count, most * kGroups), kGroup) * kGroup;
    blocks = static_cast<uint32_t>(std::max<int64_t>(divide_up(count, share * kGroups), 1));
    const int bits = std::bit_width(no_row(table));
    digits = std::max<int>((bits + kDigitBits - 1) / kDigitBits, 1);
  }
  uint64_t list_bytes() const { return static_cast<uint64_t>(count) * sizeof(Named); }
  uint64_t count_bytes() const { return uint64_t{blocks} * kCounted * kDigits * sizeof(uint32_t); }
};

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

// Queues the kernels of the sort and returns the sorted list, which is one of `lists`. Each of
// these has grid.list_bytes(), `counts` grid.count_bytes().
const Named* sort_by_row(const Launch& l, const Table& table, const SortGrid& grid,
                         Named* const (&lists)[2], uint32_t* counts);

// Appends these kernels to the list of a plan.
void sort_work(std::vector<Work>& work, const SortGrid& grid);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ROW_SORT_H_
