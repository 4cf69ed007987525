// Places buffers by size in two orders, and keeps the smaller arena.
#include "runtime/graph/memory.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

namespace runtime::graph {

namespace {

uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

uint64_t peak(const std::vector<BufferRequest>& requests, uint64_t alignment) {
  int end = 0;
  for (const BufferRequest& r : requests) end = std::max(end, r.last + 1);
  std::vector<int64_t> delta(end + 1, 0);
  for (const BufferRequest& r : requests) {
    const auto bytes = static_cast<int64_t>(align_up(r.bytes, alignment));
    delta[r.first] += bytes;
    delta[r.last + 1] -= bytes;
  }
  int64_t alive = 0, highest = 0;
  for (int64_t d : delta) highest = std::max(highest, alive += d);
  return static_cast<uint64_t>(highest);
}

// Rounds down to three significant bits.
uint64_t round_down(uint64_t bytes) {
  const int low = std::max(0, static_cast<int>(std::bit_width(bytes)) - 3);
  return bytes >> low << low;
}

// The lowest offset from `offset` on at which `bytes` lie in one piece.
uint64_t within_piece(uint64_t offset, uint64_t bytes, uint64_t piece) {
  const bool is_cut = bytes > 0 && offset / piece != (offset + bytes - 1) / piece;
  return is_cut ? align_up(offset, piece) : offset;
}

MemoryPlan plan_in_order(const std::vector<BufferRequest>& requests, uint64_t alignment,
                         uint64_t piece, const std::vector<size_t>& order) {
  MemoryPlan plan;
  plan.offsets.assign(requests.size(), 0);
  plan.lower_bound = peak(requests, alignment);
  std::vector<size_t> placed;  // sorted by offset
  for (size_t i : order) {
    uint64_t offset = 0;
    for (size_t j : placed) {
      const bool overlaps =
          requests[j].first <= requests[i].last && requests[i].first <= requests[j].last;
      if (!overlaps) continue;
      offset = within_piece(offset, requests[i].bytes, piece);
      if (offset + requests[i].bytes <= plan.offsets[j]) break;
      offset = std::max(offset, align_up(plan.offsets[j] + requests[j].bytes, alignment));
    }
    offset = within_piece(offset, requests[i].bytes, piece);
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, align_up(offset + requests[i].bytes, alignment));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](uint64_t o, size_t j) { return o < plan.offsets[j]; }),
                  i);
  }
  return plan;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<BufferRequest>& requests, uint64_t alignment,
                       uint64_t piece) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].bytes > requests[b].bytes; });
  MemoryPlan exact = plan_in_order(requests, alignment, piece, order);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto key = [&](size_t i) {
      return std::tuple(UINT64_MAX - round_down(requests[i].bytes), requests[i].first, i);
    };
    return key(a) < key(b);
  });
  MemoryPlan rounded = plan_in_order(requests, alignment, piece, order);
  return rounded.bytes < exact.bytes ? rounded : exact;
}

}  // namespace runtime::graph
