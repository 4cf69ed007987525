// Computes the lifetimes of a graph's values and workspaces, and their offsets in the arena.
#ifndef RUNTIME_EXEC_PLACEMENT_H_
#define RUNTIME_EXEC_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::exec {

// What the kernel of one node needs.
struct NodeNeeds {
  uint64_t workspace_bytes = 0;
  // Bit i of in_place[j]: output j may share the memory of input i.
  std::vector<uint32_t> in_place;
};

// A buffer of the arena: one value, or several that share it in place.
struct PlacedBuffer {
  std::vector<graph::ValueId> values;  // empty: a workspace
  uint64_t bytes = 0, offset = 0;
  int first = 0, last = 0;
};

// The arena of one program. Offsets and sizes in bytes.
struct Placement {
  static constexpr uint64_t kNowhere = UINT64_MAX;
  std::vector<uint64_t> value_offsets;      // by value; kNowhere for persistent values and views
  std::vector<uint64_t> workspace_offsets;  // by node; kNowhere if it has no workspace
  std::vector<PlacedBuffer> buffers;
  uint64_t arena_bytes = 0, lower_bound = 0;
};

// Whether values of this kind outlive a step and so lie outside of the arena.
bool is_persistent(graph::ValueKind kind);

// Places every value that is not persistent. Inputs and outputs of the graph live during the whole
// program. An output reuses the memory of an input if the kernel allows it and no later node reads
// the input. `piece`: the bytes of a piece of the arena, as in graph::plan_memory().
Placement place_values(const graph::Graph& graph, const std::vector<NodeNeeds>& needs,
                       uint64_t alignment, uint64_t piece = UINT64_MAX);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_PLACEMENT_H_
