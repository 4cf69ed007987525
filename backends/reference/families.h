// The factories behind the table of operations. Each checks its operands and attributes and throws
// the errors of make_kernel; make_kernel adds the post-operations, which factories ignore.
#ifndef BACKENDS_REFERENCE_FAMILIES_H_
#define BACKENDS_REFERENCE_FAMILIES_H_

#include "backends/reference/kernel.h"

namespace backends::reference {

// Makes the kernel of one operation.
using Factory = Kernel (*)(const rt::sdk::Operation&);

// matmul.cpp
Kernel make_matmul(const rt::sdk::Operation& op);
// convolution.cpp
Kernel make_conv2d(const rt::sdk::Operation& op);
Kernel make_conv2d_backward_data(const rt::sdk::Operation& op);
Kernel make_conv2d_backward_weights(const rt::sdk::Operation& op);
// pooling.cpp
Kernel make_max_pool2d(const rt::sdk::Operation& op);
Kernel make_max_pool2d_backward(const rt::sdk::Operation& op);
Kernel make_avg_pool2d(const rt::sdk::Operation& op);
Kernel make_avg_pool2d_backward(const rt::sdk::Operation& op);
Kernel make_global_avg_pool(const rt::sdk::Operation& op);
Kernel make_global_avg_pool_backward(const rt::sdk::Operation& op);
// convolution_pooling.cpp
Kernel make_conv2d_pool2d(const rt::sdk::Operation& op);
Kernel make_conv2d_pool2d_backward_weights(const rt::sdk::Operation& op);
// elementwise.cpp
Kernel make_activation(const rt::sdk::Operation& op);
Kernel make_activation_backward(const rt::sdk::Operation& op);
Kernel make_gated_activation(const rt::sdk::Operation& op);
Kernel make_gated_activation_backward(const rt::sdk::Operation& op);
Kernel make_add(const rt::sdk::Operation& op);
Kernel make_subtract(const rt::sdk::Operation& op);
Kernel make_multiply(const rt::sdk::Operation& op);
Kernel make_divide(const rt::sdk::Operation& op);
Kernel make_scale(const rt::sdk::Operation& op);
// dropout.cpp
Kernel make_dropout(const rt::sdk::Operation& op);
// reductions.cpp
Kernel make_reduce(const rt::sdk::Operation& op);
Kernel make_square_sum(const rt::sdk::Operation& op);
Kernel make_clip_scale(const rt::sdk::Operation& op);
Kernel make_loss_scale(const rt::sdk::Operation& op);
// softmax.cpp
Kernel make_softmax(const rt::sdk::Operation& op);
Kernel make_softmax_backward(const rt::sdk::Operation& op);
Kernel make_log_softmax(const rt::sdk::Operation& op);
Kernel make_log_softmax_backward(const rt::sdk::Operation& op);
// losses.cpp
Kernel make_cross_entropy(const rt::sdk::Operation& op);
Kernel make_cross_entropy_backward(const rt::sdk::Operation& op);
Kernel make_cross_entropy_with_gradient(const rt::sdk::Operation& op);
Kernel make_mean_squared_error(const rt::sdk::Operation& op);
Kernel make_mean_squared_error_backward(const rt::sdk::Operation& op);
Kernel make_correct_count(const rt::sdk::Operation& op);
// normalisation.cpp
Kernel make_batch_norm(const rt::sdk::Operation& op);
Kernel make_batch_norm_inference(const rt::sdk::Operation& op);
Kernel make_batch_norm_backward(const rt::sdk::Operation& op);
Kernel make_layer_norm(const rt::sdk::Operation& op);
Kernel make_layer_norm_backward(const rt::sdk::Operation& op);
Kernel make_rms_norm(const rt::sdk::Operation& op);
Kernel make_rms_norm_backward(const rt::sdk::Operation& op);
// batch_norm_parts.cpp
Kernel make_batch_norm_statistics(const rt::sdk::Operation& op);
Kernel make_batch_norm_merge(const rt::sdk::Operation& op);
Kernel make_batch_norm_apply(const rt::sdk::Operation& op);
Kernel make_batch_norm_backward_statistics(const rt::sdk::Operation& op);
Kernel make_batch_norm_backward_apply(const rt::sdk::Operation& op);
// cross_entropy_parts.cpp
Kernel make_cross_entropy_statistics(const rt::sdk::Operation& op);
Kernel make_cross_entropy_merge(const rt::sdk::Operation& op);
Kernel make_cross_entropy_backward_apply(const rt::sdk::Operation& op);
// attention.cpp
Kernel make_attention(const rt::sdk::Operation& op);
Kernel make_attention_backward(const rt::sdk::Operation& op);
// rotary.cpp
Kernel make_rotary(const rt::sdk::Operation& op);
Kernel make_dot_product_attention(const rt::sdk::Operation& op);
Kernel make_dot_product_attention_backward(const rt::sdk::Operation& op);
// movement.cpp
Kernel make_transpose(const rt::sdk::Operation& op);
Kernel make_concat(const rt::sdk::Operation& op);
Kernel make_slice(const rt::sdk::Operation& op);
Kernel make_pad(const rt::sdk::Operation& op);
Kernel make_cast(const rt::sdk::Operation& op);
Kernel make_copy(const rt::sdk::Operation& op);
Kernel make_fill(const rt::sdk::Operation& op);
// embedding.cpp
Kernel make_embedding(const rt::sdk::Operation& op);
Kernel make_embedding_backward(const rt::sdk::Operation& op);
// optimizers.cpp
Kernel make_sgd(const rt::sdk::Operation& op);
Kernel make_adamw(const rt::sdk::Operation& op);

// post_operations.cpp: returns `kernel` followed by the post-operations of `op`, in order. Returns
// `kernel` unchanged if there are none.
Kernel with_post_operations(const rt::sdk::Operation& op, Kernel kernel);

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_FAMILIES_H_
