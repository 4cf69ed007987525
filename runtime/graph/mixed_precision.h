// 16-bit activations beside float32 parameters. Equivalent to: torch.autocast.
#ifndef RUNTIME_GRAPH_MIXED_PRECISION_H_
#define RUNTIME_GRAPH_MIXED_PRECISION_H_

#include "runtime/graph/graph.h"

namespace runtime::graph {

// Rewrites a float32 forward graph with its loss, before it is differentiated: every value computed
// from the input or from parameters gets type `dtype` (float16 or bfloat16) up to the loss, which
// is float32. Where an operation of a layer reads a parameter or the input, a cast that belongs to
// that layer is inserted before it. The gradient of a cast is a cast, so gradients of parameters
// are float32. Operands that plugins/operations.md keeps in float32 beside 16-bit ones, and
// penalties on weights, stay float32.
void narrow_activations(Graph& graph, rt_dtype dtype);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_MIXED_PRECISION_H_
