// 16-bit activations beside float32 parameters, as users of PyTorch's autocast know them.
#ifndef RUNTIME_GRAPH_MIXED_PRECISION_H_
#define RUNTIME_GRAPH_MIXED_PRECISION_H_

#include "runtime/graph/graph.h"

namespace runtime::graph {

// Rewrites a float32 forward graph with its loss, before it is differentiated: what comes of the
// input and of parameters has type `dtype` (float16 or bfloat16) up to the loss, which is float32.
// Where an operation of a layer reads a parameter or the input, a cast of that layer goes before
// it; the gradient of a cast is a cast, so that gradients of parameters are float32. What
// plugins/operations.md keeps in float32 beside 16-bit operands, and penalties on weights, stay so.
void narrow_activations(Graph& graph, rt_dtype dtype);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_MIXED_PRECISION_H_
