// Computes which bytes a chunk of each collective moves, and moves or reduces them.
#include "collectives/local/chunks.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "collectives/local/reduce.h"
#include "rt/sdk/operation.h"

namespace collectives::local {
namespace {

using Calls = std::span<const rt_collective>;

// Bytes of one buffer in a chunk. The chunks of a few ranks fit into the second-level cache, and
// claiming a chunk costs little compared with carrying it out.
constexpr uint64_t kChunkBytes = 32 << 10;

uint64_t elements_per_chunk(const rt_collective& call) {
  return kChunkBytes / rt::sdk::dtype_bytes(call.dtype);
}

// The number of blocks of `count` elements into which the buffers are divided. Each block can be
// processed independently.
uint64_t parts(Calls calls) {
  const uint64_t ranks = calls.size();
  switch (calls[0].kind) {
    case RT_REDUCE_SCATTER:
    case RT_ALL_GATHER:
      return ranks;
    case RT_ALL_TO_ALL:
      return ranks * (ranks + 1) / 2;  // one for each pair of ranks and for each rank
    default:
      return 1;
  }
}

uint64_t chunks_per_part(const rt_collective& call) {
  const uint64_t size = elements_per_chunk(call);
  return call.count / size + (call.count % size != 0);
}

// Elements begin..begin+count-1 of a block. `elements` is the index of the block's first element in
// `buffer`.
struct Range {
  uint64_t begin, count, bytes_each;
  uint64_t bytes() const { return count * bytes_each; }
  const std::byte* from(const void* buffer, uint64_t elements) const {
    return static_cast<const std::byte*>(buffer) + (elements + begin) * bytes_each;
  }
  std::byte* to(void* buffer, uint64_t elements) const {
    return static_cast<std::byte*>(buffer) + (elements + begin) * bytes_each;
  }
};

void copy(std::byte* to, const std::byte* from, uint64_t bytes) {
  if (to != from) std::memcpy(to, from, bytes);
}

// Reduces a range of one block of all send buffers into the receive buffers of ranks first..last-1.
// `source_part` is the index of the block's first element in every send buffer.
void reduce_range(Calls calls, const Range& range, uint64_t source_part, std::size_t first,
                  std::size_t last) {
  const void* sources[kMaxRanks];
  void* targets[kMaxRanks];
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    sources[rank] = range.from(calls[rank].send, source_part);
  }
  for (std::size_t rank = first; rank < last; ++rank) {
    targets[rank - first] = range.to(calls[rank].receive, 0);
  }
  reduce(calls[0].dtype, calls[0].reduction, {sources, calls.size()}, {targets, last - first},
         range.count);
}

void copy_to_all(Calls calls, const Range& range, const std::byte* from, uint64_t target_part) {
  for (const rt_collective& call : calls) {
    copy(range.to(call.receive, target_part), from, range.bytes());
  }
}

// The pair with index `pair` in the list (0,0) (0,1) .. (0,R-1) (1,1) ..
std::pair<std::size_t, std::size_t> pair_of(std::size_t ranks, uint64_t pair) {
  std::size_t a = 0;
  while (pair >= ranks - a) pair -= ranks - a++;
  return {a, a + pair};
}

// Exchanges a range of two blocks between two ranks. A copy on the stack makes it work in place.
void exchange(const rt_collective& a, const rt_collective& b, const Range& range, uint64_t part_a,
              uint64_t part_b) {
  std::byte kept[kChunkBytes];
  std::memcpy(kept, range.from(a.send, part_b), range.bytes());
  copy(range.to(a.receive, part_b), range.from(b.send, part_a), range.bytes());
  std::memcpy(range.to(b.receive, part_a), kept, range.bytes());
}

}  // namespace

uint64_t chunk_count(Calls calls) {
  const rt_collective& call = calls[0];
  if (call.kind < RT_ALL_REDUCE || call.kind >= RT_BARRIER) return 0;
  return parts(calls) * chunks_per_part(call);
}

void run_chunk(Calls calls, uint64_t chunk) {
  const rt_collective& call = calls[0];
  const uint64_t part = chunk / chunks_per_part(call);
  const uint64_t begin = chunk % chunks_per_part(call) * elements_per_chunk(call);
  const Range range{begin, std::min(elements_per_chunk(call), call.count - begin),
                    rt::sdk::dtype_bytes(call.dtype)};
  const auto root = static_cast<std::size_t>(call.peer);
  switch (call.kind) {
    case RT_ALL_REDUCE:
      return reduce_range(calls, range, 0, 0, calls.size());
    case RT_REDUCE_SCATTER:
      return reduce_range(calls, range, part * call.count, part, part + 1);
    case RT_REDUCE:
      return reduce_range(calls, range, 0, root, root + 1);
    case RT_ALL_GATHER:
      return copy_to_all(calls, range, range.from(calls[part].send, 0), part * call.count);
    case RT_BROADCAST:
      return copy_to_all(calls, range, range.from(calls[root].send, 0), 0);
    case RT_ALL_TO_ALL: {
      const auto [a, b] = pair_of(calls.size(), part);
      return exchange(calls[a], calls[b], range, a * call.count, b * call.count);
    }
    default:  // RT_SEND and RT_RECEIVE
      return copy(range.to(calls[1].receive, 0), range.from(calls[0].send, 0), range.bytes());
  }
}

}  // namespace collectives::local
