// Passes that fit a graph to what a device can do: fusion of post-operations, composition of
// refused operations.
#ifndef RUNTIME_GRAPH_FUSE_H_
#define RUNTIME_GRAPH_FUSE_H_

#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/graph/target.h"

namespace runtime::graph {

// Turns bias adds, activations, residual adds and activation backwards into post-operations of the
// node before them, as far as the target fuses them, and bias gradients into a second output of the
// convolution's weight gradient.
void fuse(Graph& graph, Target& target);

// Makes post-operations that no candidate of the target fuses into nodes of their own again, the
// last ones first: what a device fuses may depend on layouts, and so be less than it said.
void unfuse(Graph& graph, Target& target);

// Replaces operations that the target refuses by equivalent ones that it supports. Returns one line
// for each kind of replacement, for the log. Throws DeviceError naming layer, operation, device and
// reason where there is no replacement.
std::vector<std::string> lower(Graph& graph, Target& target);

// Removes nodes whose outputs nobody reads (outputs of the graph, parameters and state count as
// read).
void remove_dead_nodes(Graph& graph);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_FUSE_H_
