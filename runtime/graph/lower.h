// Replaces operations that a device refuses by others that it supports.
#ifndef RUNTIME_GRAPH_LOWER_H_
#define RUNTIME_GRAPH_LOWER_H_

#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/graph/target.h"

namespace runtime::graph {

// Composes operations that the target refuses of others, by the table of compositions.h. An
// operation that saves data is composed together with its backward operation, if the target refuses
// one of the two. What passes that distribute a step look for (is_composed_late) stays until
// lower_rest(). Returns one line for the log for each kind of replacement. Throws DeviceError,
// which names all operations that are missing, and where they are needed.
std::vector<std::string> lower(Graph& graph, Target& target);

// The same for what lower() left and for nodes that later passes have made: those without an
// implementation.
std::vector<std::string> lower_rest(Graph& graph, Target& target);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_LOWER_H_
