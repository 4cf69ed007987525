// The table of operations, and the checks that all of them share.
#include <algorithm>
#include <map>
#include <string_view>

#include "backends/reference/check.h"
#include "backends/reference/families.h"

namespace backends::reference {
namespace {

struct Entry {
  Factory make;
  bool post_operations = false;
};

const std::map<std::string, Entry, std::less<>>& table() {
  static const std::map<std::string, Entry, std::less<>> entries = {
      {RT_OP_MATMUL, {make_matmul, true}},
      {RT_OP_CONV2D, {make_conv2d, true}},
      {RT_OP_CONV2D_BACKWARD_DATA, {make_conv2d_backward_data, true}},
      {RT_OP_CONV2D_BACKWARD_WEIGHTS, {make_conv2d_backward_weights}},
      {RT_OP_MAX_POOL2D, {make_max_pool2d, true}},
      {RT_OP_MAX_POOL2D_BACKWARD, {make_max_pool2d_backward, true}},
      {RT_OP_AVG_POOL2D, {make_avg_pool2d, true}},
      {RT_OP_AVG_POOL2D_BACKWARD, {make_avg_pool2d_backward, true}},
      {RT_OP_GLOBAL_AVG_POOL, {make_global_avg_pool, true}},
      {RT_OP_GLOBAL_AVG_POOL_BACKWARD, {make_global_avg_pool_backward, true}},
      {RT_OP_ACTIVATION, {make_activation}},
      {RT_OP_ACTIVATION_BACKWARD, {make_activation_backward}},
      {RT_OP_ADD, {make_arithmetic, true}},
      {RT_OP_SUBTRACT, {make_arithmetic}},
      {RT_OP_MULTIPLY, {make_arithmetic}},
      {RT_OP_DIVIDE, {make_arithmetic}},
      {RT_OP_SCALE, {make_scale}},
      {RT_OP_DROPOUT, {make_dropout}},
      {RT_OP_REDUCE, {make_reduce}},
      {RT_OP_SQUARE_SUM, {make_square_sum}},
      {RT_OP_CLIP_SCALE, {make_clip_scale}},
      {RT_OP_SOFTMAX, {make_softmax}},
      {RT_OP_SOFTMAX_BACKWARD, {make_softmax_backward}},
      {RT_OP_LOG_SOFTMAX, {make_log_softmax}},
      {RT_OP_LOG_SOFTMAX_BACKWARD, {make_log_softmax_backward}},
      {RT_OP_CROSS_ENTROPY, {make_cross_entropy}},
      {RT_OP_CROSS_ENTROPY_BACKWARD, {make_cross_entropy_backward}},
      {RT_OP_CROSS_ENTROPY_STATISTICS, {make_cross_entropy_statistics}},
      {RT_OP_CROSS_ENTROPY_MERGE, {make_cross_entropy_merge}},
      {RT_OP_CROSS_ENTROPY_BACKWARD_APPLY, {make_cross_entropy_backward_apply}},
      {RT_OP_MEAN_SQUARED_ERROR, {make_mean_squared_error}},
      {RT_OP_MEAN_SQUARED_ERROR_BACKWARD, {make_mean_squared_error_backward}},
      {RT_OP_CORRECT_COUNT, {make_correct_count}},
      {RT_OP_BATCH_NORM, {make_batch_norm, true}},
      {RT_OP_BATCH_NORM_INFERENCE, {make_batch_norm_inference, true}},
      {RT_OP_BATCH_NORM_BACKWARD, {make_batch_norm_backward}},
      {RT_OP_BATCH_NORM_STATISTICS, {make_batch_norm_statistics}},
      {RT_OP_BATCH_NORM_MERGE, {make_batch_norm_merge}},
      {RT_OP_BATCH_NORM_APPLY, {make_batch_norm_apply, true}},
      {RT_OP_BATCH_NORM_BACKWARD_STATISTICS, {make_batch_norm_backward_statistics}},
      {RT_OP_BATCH_NORM_BACKWARD_APPLY, {make_batch_norm_backward_apply}},
      {RT_OP_LAYER_NORM, {make_layer_norm}},
      {RT_OP_LAYER_NORM_BACKWARD, {make_layer_norm_backward}},
      {RT_OP_ATTENTION, {make_attention}},
      {RT_OP_ATTENTION_BACKWARD, {make_attention_backward}},
      {RT_OP_EMBEDDING, {make_embedding}},
      {RT_OP_EMBEDDING_BACKWARD, {make_embedding_backward}},
      {RT_OP_TRANSPOSE, {make_transpose}},
      {RT_OP_CONCAT, {make_concat}},
      {RT_OP_SLICE, {make_slice}},
      {RT_OP_PAD, {make_pad}},
      {RT_OP_CAST, {make_cast}},
      {RT_OP_COPY, {make_copy}},
      {RT_OP_FILL, {make_fill}},
      {RT_OP_SGD, {make_sgd}},
      {RT_OP_ADAMW, {make_adamw}},
  };
  return entries;
}

}  // namespace

Kernel make_kernel(const Operation& op) {
  expect_well_formed(op, true);
  const auto entry = table().find(op.name());
  if (entry == table().end()) {
    throw Refusal(-1, "operation '" + std::string(op.name()) +
                          "' is not in the list of operations of this version of the contract");
  }
  if (op.post_op_count() > 0 && !entry->second.post_operations) {
    op.fail("takes no post-operations; emit them as operations");
  }
  return with_post_operations(op, entry->second.make(op));
}

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : table()) names.push_back(name);
  return names;
}

bool takes_post_operations(const std::string& name) {
  const auto entry = table().find(name);
  return entry != table().end() && entry->second.post_operations;
}

}  // namespace backends::reference
