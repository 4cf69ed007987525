// The functions that rows name: how operations are differentiated (autodiff.cpp), and how many
// floating-point operations they take (flops.cpp).
#ifndef RUNTIME_GRAPH_RULES_H_
#define RUNTIME_GRAPH_RULES_H_

#include "runtime/graph/operation.h"

namespace runtime::graph {

// Throws InternalError, because no model has such an operation before its loss; for an operation of
// a plugin, ConfigurationError.
GradientRule no_gradient;
// Appends "<name>_backward". The names of its operands say what they are: dy is the gradient of the
// first output y, an output dx is the gradient of x, and all others are operands of the operation.
GradientRule backward_operation;
GradientRule gradient_of_collective;

GradientRule matmul_gradient, conv2d_gradient;
GradientRule activation_gradient, activation_backward_gradient, scale_gradient, dropout_gradient;
GradientRule rotary_gradient;
GradientRule add_gradient, subtract_gradient, multiply_gradient, divide_gradient;
GradientRule reduce_gradient, square_sum_gradient;
GradientRule cross_entropy_merge_gradient, batch_norm_apply_gradient, embedding_backward_gradient;
GradientRule copy_gradient, cast_gradient, transpose_gradient, concat_gradient;
GradientRule slice_gradient, pad_gradient;

FlopsRule matmul_flops, attention_flops, attention_backward_flops;
FlopsRule dot_product_attention_flops, dot_product_attention_backward_flops;
FlopsRule conv2d_flops, conv2d_backward_data_flops, conv2d_backward_weights_flops;
FlopsRule conv2d_pool2d_flops, conv2d_pool2d_backward_weights_flops;

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_RULES_H_
