// Finds a way for operations that a device refuses: another device, or other operations.
#ifndef RUNTIME_GRAPH_LOWER_H_
#define RUNTIME_GRAPH_LOWER_H_

#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/graph/target.h"

namespace runtime::graph {

// Marks operations that the target refuses for its fallback device (Node::on_fallback), if it has
// one that supports them. Composes the others, by the table of compositions.h; operations that a
// composition needs may be marked, too. An operation that saves data is marked or composed together
// with its backward operation, if the target refuses one of the two. What passes that distribute a
// step look for (is_composed_late) is composed by lower_rest(). Returns one line for the log for
// each kind of replacement. Throws DeviceError, which names all operations that are missing, and
// where they are needed. If all of them have operands of more elements than 32 bits count, the
// error begins with "this batch does not fit".
std::vector<std::string> lower(Graph& graph, Target& target);

// The same for what lower() left and for nodes that later passes have made: those without an
// implementation.
std::vector<std::string> lower_rest(Graph& graph, Target& target);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_LOWER_H_
