// What operations take, measured once for all programs that have them.
#ifndef RUNTIME_EXEC_NODE_TIMES_H_
#define RUNTIME_EXEC_NODE_TIMES_H_

#include <string>
#include <unordered_map>

#include "runtime/graph/graph.h"

namespace runtime::exec {

// Nanoseconds by node_key(). One thread at a time.
using NodeTimes = std::unordered_map<std::string, double>;

// What the kernel of a node computes and how: nodes with equal keys take equally long on one
// device. `updates`: the program updates parameters, so that it packs them again in every run.
std::string node_key(const graph::Graph& graph, const graph::Node& node, bool updates);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_NODE_TIMES_H_
