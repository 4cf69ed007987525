// Memory plan: offsets of all temporaries in one arena, reused by lifetime.
#ifndef RUNTIME_GRAPH_MEMORY_H_
#define RUNTIME_GRAPH_MEMORY_H_

#include <cstdint>
#include <vector>

namespace runtime::graph {

// One buffer to place: it must exist while the steps first..last (inclusive) run.
struct BufferRequest {
  uint64_t bytes = 0;
  int first = 0;
  int last = 0;
};

// The places of all requests in one arena.
struct MemoryPlan {
  std::vector<uint64_t> offsets;  // of each request, multiples of the alignment
  uint64_t bytes = 0;             // of the arena
  uint64_t lower_bound = 0;       // largest sum of sizes alive at one step; no plan can need less
};

// Greedy placement by size (Pisarchyk and Lee, "Efficient memory management for deep neural net
// inference", 2020): the largest buffer first, each at the lowest offset that is free during its
// whole life. A second plan takes buffers of about the same size in the order in which their lives
// begin; the smaller of the two plans is returned. `alignment` and `piece` are in bytes: the arena
// consists of pieces of that size, and no buffer that is not larger lies in two of them. `piece` is
// a multiple of the alignment, or UINT64_MAX.
MemoryPlan plan_memory(const std::vector<BufferRequest>& requests, uint64_t alignment,
                       uint64_t piece = UINT64_MAX);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_MEMORY_H_
