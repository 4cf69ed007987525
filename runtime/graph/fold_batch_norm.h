// Makes batch normalisation a part of the convolution before it where its statistics are fixed.
#ifndef RUNTIME_GRAPH_FOLD_BATCH_NORM_H_
#define RUNTIME_GRAPH_FOLD_BATCH_NORM_H_

#include "runtime/graph/graph.h"

namespace runtime::graph {

// Replaces each batch_norm_inference that alone reads a convolution with a parameter as weights by
// weights of which each output channel is scaled, and a bias. Nodes of Phase::kPack at the front of
// the graph compute both from the parameters, so that they are made again only when parameters have
// changed. Results differ by the rounding of the weights. Call it before lower(), for a graph
// without a backward pass.
//
// Equivalent to: torch.nn.utils.fuse_conv_bn_eval.
void fold_batch_norms(Graph& graph);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_FOLD_BATCH_NORM_H_
