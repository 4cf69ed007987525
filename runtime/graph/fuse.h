// Passes that replace several nodes by one that the device computes faster.
#ifndef RUNTIME_GRAPH_FUSE_H_
#define RUNTIME_GRAPH_FUSE_H_

#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/graph/target.h"

namespace runtime::graph {

// Fuses nodes as far as the target has kernels for the result:
// - Bias adds, activations, residual adds and gradients of activations become post-operations of
//   the node whose result they read. Equivalent to: an epilogue of cuBLASLt, a post-op of oneDNN.
// - The gradient of a bias becomes a second output of the node that computes the weight's gradient.
// - A convolution and the pooling behind it become one node, and so do a cross entropy and its
//   gradient.
void fuse(Graph& graph, Target& target);

// The part of fuse() for matrix products alone, which follows the other fusions: products of
// matrices in 16 bits write gradients of parameters in float32; bias gradients become a second
// output of the weight's gradient; and a product whose result v goes through a gelu stores v beside
// it for the backward operation.
void fuse_products(Graph& graph, Target& target);

// The part of fuse() for convolutions with a pooling behind them, which follows the other fusions:
// the pooling goes into the node of the convolution, and the gradient of the weights reads the
// gradient of the pooling's result, where nothing else needs the image between the two.
void fuse_pooling(Graph& graph, Target& target);

// Turns post-operations that no candidate of the target fuses back into nodes of their own, the
// last ones first. This is needed because what a device fuses may depend on layouts, so that its
// candidates may fuse less than Target::support() said.
void unfuse(Graph& graph, Target& target);

// Removes nodes whose outputs no node reads. Values that outlive the step (outputs of the graph,
// parameters, state) count as read.
void remove_dead_nodes(Graph& graph);

// lower(), all of the above and choose_layouts() (layout.h), in their order, for a graph that is
// not a step; a step has a list of passes of its own. The caller may distribute the graph, and then
// calls lower_rest(). Returns the lines of lower().
std::vector<std::string> fit_to_device(Graph& graph, Target& target);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_FUSE_H_
