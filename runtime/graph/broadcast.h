// The dims of the result of a broadcasting operation.
#ifndef RUNTIME_GRAPH_BROADCAST_H_
#define RUNTIME_GRAPH_BROADCAST_H_

#include <algorithm>
#include <optional>

#include "runtime/graph/graph.h"

namespace runtime::graph {

// The dims of two operands together, aligned at the last one; nullopt if they do not fit.
// Equivalent to: torch.broadcast_shapes.
inline std::optional<Dims> broadcast(const Dims& a, const Dims& b) {
  Dims result(std::max(a.size(), b.size()));
  for (size_t i = 1; i <= result.size(); ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i] : 1;
    const int64_t y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    result[result.size() - i] = x == 1 ? y : x;
  }
  return result;
}

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_BROADCAST_H_
