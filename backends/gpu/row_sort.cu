// The kernels that sort the indices of an embedding by the row that they name.
#include "backends/gpu/row_sort.h"
#include "backends/gpu/unroll.h"
#include "backends/gpu/vectors.h"

namespace backends::gpu {
namespace {

// The indices as the first digit's kernels read them, or as those of the digit before wrote them.
struct Unsorted {
  const int32_t* indices;
  const Named* named;  // null: the first digit
  Table table;
  GPU_DEVICE Named at(int64_t i) const {
    if (named != nullptr) return named[i];
    const int64_t row = table.row_of(indices[i]);
    const bool named_here = row >= 0 && row < table.rows;
    return {named_here ? static_cast<uint32_t>(row) : no_row(table), static_cast<uint32_t>(i)};
  }
};

// Each group goes through its share in order, kGroup indices at a time. counters[group][digit] is
// the place of the group's next index with this digit, and goes up with each of them; an index is
// written to its place in `to`, unless that is null.
GPU_DEVICE void place_in_order(const Unsorted& from, const SortGrid& grid, int shift,
                               uint32_t (&counters)[kGroups][kDigits], Named* to) {
  __shared__ Pack<int32_t, 4> digits[kBlock / 4];
  const int t = static_cast<int>(threadIdx.x), group = t / kGroup, lane = t % kGroup;
  uint32_t* const places = counters[group];
  const int64_t begin = (int64_t{blockIdx.x} * kGroups + group) * grid.share;
  const int64_t end = begin + grid.share < grid.count ? begin + grid.share : grid.count;
  Named next = begin + lane < end ? from.at(begin + lane) : Named{};
  for (int64_t done = 0; done < grid.share; done += kGroup) {
    const int64_t i = begin + done + lane;
    const Named named = next;
    const int digit = i < end ? static_cast<int>((named.row >> shift) % kDigits) : -1;
    if (i + kGroup < end) next = from.at(i + kGroup);
    digits[t / 4].value[t % 4] = digit;
    __syncthreads();
    uint32_t before = 0, all = 0;  // of the group's kGroup indices with this digit
    GPU_UNROLL
    for (int k = 0; k < kGroup; k += 4) {
      const Pack<int32_t, 4> others = digits[(t - lane + k) / 4];
      GPU_UNROLL
      for (int n = 0; n < 4; ++n) {
        const bool same = others.value[n] == digit;
        all += same ? 1 : 0;
        before += same && k + n < lane ? 1 : 0;
      }
    }
    const uint32_t place = digit < 0 ? 0 : places[digit] + before;
    __syncthreads();
    if (digit < 0) continue;
    if (before + 1 == all) places[digit] = place + 1;
    if (to != nullptr) to[place] = named;
  }
  __syncthreads();
}

// counts[block][group][digit]: how many indices of the group have the digit; line kGroups of a
// block: how many of the block.
GPU_KERNEL_OF(kBlock)
void count_digits_kernel(Unsorted from, SortGrid grid, int shift, uint32_t* counts) {
  __shared__ uint32_t counters[kGroups][kDigits];
  for (int k = static_cast<int>(threadIdx.x); k < kGroups * kDigits; k += kBlock)
    counters[k / kDigits][k % kDigits] = 0;
  __syncthreads();
  place_in_order(from, grid, shift, counters, nullptr);
  uint32_t* const mine = counts + int64_t{blockIdx.x} * kCounted * kDigits;
  for (int digit = static_cast<int>(threadIdx.x); digit < kDigits; digit += kBlock) {
    uint32_t all = 0;
    for (int g = 0; g < kGroups; ++g) {
      mine[g * kDigits + digit] = counters[g][digit];
      all += counters[g][digit];
    }
    mine[kGroups * kDigits + digit] = all;
  }
}

// Sets counters[group][digit] to the place of the group's first index with the digit: behind all
// indices with smaller digits, and those with this digit in blocks and groups before.
GPU_DEVICE void find_first_places(const uint32_t* counts, uint32_t (&counters)[kGroups][kDigits]) {
  __shared__ int scratch[kBlock];
  constexpr uint32_t kAhead = 16;  // counts that a thread loads before it adds the first
  const int digit = static_cast<int>(threadIdx.x) * 2;
  uint32_t all[2] = {}, before[2] = {};
  for (uint32_t b = 0; b < gridDim.x; b += kAhead) {
    Pack<uint32_t, 2> loaded[kAhead] = {};
    GPU_UNROLL
    for (uint32_t a = 0; a < kAhead; ++a) {
      const int64_t line = int64_t{b + a} * kCounted + kGroups;
      if (b + a < gridDim.x) loaded[a] = load<2>(counts + line * kDigits + digit);
    }
    GPU_UNROLL
    for (uint32_t a = 0; a < kAhead; ++a) {
      for (int k = 0; k < 2; ++k) {
        all[k] += loaded[a].value[k];
        if (b + a < blockIdx.x) before[k] += loaded[a].value[k];
      }
    }
  }
  int total = 0;
  const int smaller = sum_before(static_cast<int>(all[0] + all[1]), scratch, total);
  uint32_t place[2] = {static_cast<uint32_t>(smaller) + before[0],
                       static_cast<uint32_t>(smaller) + all[0] + before[1]};
  for (int g = 0; g < kGroups; ++g) {
    const int64_t line = int64_t{blockIdx.x} * kCounted + g;
    for (int k = 0; k < 2; ++k) {
      counters[g][digit + k] = place[k];
      place[k] += counts[line * kDigits + digit + k];
    }
  }
  __syncthreads();
}

// `counts` is what count_digits_kernel wrote with the same grid.
GPU_KERNEL_OF(kBlock)
void sort_by_digit_kernel(Unsorted from, SortGrid grid, int shift, const uint32_t* counts,
                          Named* to) {
  __shared__ uint32_t counters[kGroups][kDigits];
  find_first_places(counts, counters);
  place_in_order(from, grid, shift, counters, to);
}

}  // namespace

const Named* sort_by_row(const Launch& l, const Table& table, const SortGrid& grid,
                         Named* const (&lists)[2], uint32_t* counts) {
  Unsorted from{l.input<int32_t>(0), nullptr, table};
  for (int digit = 0; digit < grid.digits; ++digit) {
    const int shift = digit * kDigitBits;
    Named* const to = lists[digit % 2];
    GPU_LAUNCH(count_digits_kernel, dim3(grid.blocks), dim3(kBlock), l.stream, from, grid, shift,
               counts);
    check_launch("count of digits");
    GPU_LAUNCH(sort_by_digit_kernel, dim3(grid.blocks), dim3(kBlock), l.stream, from, grid, shift,
               counts, to);
    check_launch("sort by a digit");
    from.named = to;
  }
  return from.named;
}

void sort_work(std::vector<Work>& work, const SortGrid& grid) {
  const auto list = static_cast<double>(grid.list_bytes());
  const auto counts = static_cast<double>(grid.count_bytes());
  for (int digit = 0; digit < grid.digits; ++digit) {
    const double read = digit == 0 ? list / 2 : list;
    work.push_back({"count of digits", read + counts});
    work.push_back({"sort by a digit", read + counts + list});
  }
}

}  // namespace backends::gpu
