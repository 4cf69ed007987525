// The table of operations, and the checks that all operations share.
#include <map>
#include <string_view>

#include "backends/reference/check.h"
#include "backends/reference/families.h"
#include "backends/reference/sixteen_bit.h"
#include "rt/sdk/definitions.h"

namespace backends::reference {

using rt::sdk::Definition;

namespace {

// How the reference makes one operation; its definition says the rest.
struct Entry {
  Factory make;
  bool takes_sixteen_bits = false;  // `make` does; else the kernel on float32 is wrapped
};

// For operations that move elements unchanged, or that convert them themselves: a cast, and the
// optimizers, which round one output only.
constexpr Entry as_they_are(Factory make) { return {make, true}; }

const std::map<std::string, Entry, std::less<>>& table() {
  static const std::map<std::string, Entry, std::less<>> entries = {
      {RT_OP_MATMUL, {make_matmul}},
      {RT_OP_CONV2D, {make_conv2d}},
      {RT_OP_CONV2D_BACKWARD_DATA, {make_conv2d_backward_data}},
      {RT_OP_CONV2D_BACKWARD_WEIGHTS, {make_conv2d_backward_weights}},
      {RT_OP_MAX_POOL2D, {make_max_pool2d}},
      {RT_OP_MAX_POOL2D_BACKWARD, {make_max_pool2d_backward}},
      {RT_OP_AVG_POOL2D, {make_avg_pool2d}},
      {RT_OP_AVG_POOL2D_BACKWARD, {make_avg_pool2d_backward}},
      {RT_OP_GLOBAL_AVG_POOL, {make_global_avg_pool}},
      {RT_OP_GLOBAL_AVG_POOL_BACKWARD, {make_global_avg_pool_backward}},
      {RT_OP_CONV2D_POOL2D, {make_conv2d_pool2d}},
      {RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS, {make_conv2d_pool2d_backward_weights}},
      {RT_OP_ACTIVATION, {make_activation}},
      {RT_OP_ACTIVATION_BACKWARD, {make_activation_backward}},
      {RT_OP_GATED_ACTIVATION, {make_gated_activation}},
      {RT_OP_GATED_ACTIVATION_BACKWARD, {make_gated_activation_backward}},
      {RT_OP_ADD, {make_add}},
      {RT_OP_SUBTRACT, {make_subtract}},
      {RT_OP_MULTIPLY, {make_multiply}},
      {RT_OP_DIVIDE, {make_divide}},
      {RT_OP_SCALE, {make_scale}},
      {RT_OP_DROPOUT, {make_dropout}},
      {RT_OP_REDUCE, {make_reduce}},
      {RT_OP_SQUARE_SUM, {make_square_sum}},
      {RT_OP_CLIP_SCALE, {make_clip_scale}},
      {RT_OP_LOSS_SCALE, {make_loss_scale}},
      {RT_OP_SOFTMAX, {make_softmax}},
      {RT_OP_SOFTMAX_BACKWARD, {make_softmax_backward}},
      {RT_OP_LOG_SOFTMAX, {make_log_softmax}},
      {RT_OP_LOG_SOFTMAX_BACKWARD, {make_log_softmax_backward}},
      {RT_OP_CROSS_ENTROPY, {make_cross_entropy}},
      {RT_OP_CROSS_ENTROPY_BACKWARD, {make_cross_entropy_backward}},
      {RT_OP_CROSS_ENTROPY_WITH_GRADIENT, {make_cross_entropy_with_gradient}},
      {RT_OP_CROSS_ENTROPY_STATISTICS, {make_cross_entropy_statistics}},
      {RT_OP_CROSS_ENTROPY_MERGE, {make_cross_entropy_merge}},
      {RT_OP_CROSS_ENTROPY_BACKWARD_APPLY, {make_cross_entropy_backward_apply}},
      {RT_OP_MEAN_SQUARED_ERROR, {make_mean_squared_error}},
      {RT_OP_MEAN_SQUARED_ERROR_BACKWARD, {make_mean_squared_error_backward}},
      {RT_OP_CORRECT_COUNT, {make_correct_count}},
      {RT_OP_BATCH_NORM, {make_batch_norm}},
      {RT_OP_BATCH_NORM_INFERENCE, {make_batch_norm_inference}},
      {RT_OP_BATCH_NORM_BACKWARD, {make_batch_norm_backward}},
      {RT_OP_BATCH_NORM_STATISTICS, {make_batch_norm_statistics}},
      {RT_OP_BATCH_NORM_MERGE, {make_batch_norm_merge}},
      {RT_OP_BATCH_NORM_APPLY, {make_batch_norm_apply}},
      {RT_OP_BATCH_NORM_BACKWARD_STATISTICS, {make_batch_norm_backward_statistics}},
      {RT_OP_BATCH_NORM_BACKWARD_APPLY, {make_batch_norm_backward_apply}},
      {RT_OP_LAYER_NORM, {make_layer_norm}},
      {RT_OP_LAYER_NORM_BACKWARD, {make_layer_norm_backward}},
      {RT_OP_RMS_NORM, {make_rms_norm}},
      {RT_OP_RMS_NORM_BACKWARD, {make_rms_norm_backward}},
      {RT_OP_ATTENTION, {make_attention}},
      {RT_OP_ATTENTION_BACKWARD, {make_attention_backward}},
      {RT_OP_ROTARY, {make_rotary}},
      {RT_OP_DOT_PRODUCT_ATTENTION, {make_dot_product_attention}},
      {RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD, {make_dot_product_attention_backward}},
      {RT_OP_EMBEDDING, {make_embedding}},
      {RT_OP_EMBEDDING_BACKWARD, {make_embedding_backward}},
      {RT_OP_TRANSPOSE, as_they_are(make_transpose)},
      {RT_OP_CONCAT, as_they_are(make_concat)},
      {RT_OP_SLICE, as_they_are(make_slice)},
      {RT_OP_PAD, as_they_are(make_pad)},
      {RT_OP_CAST, as_they_are(make_cast)},
      {RT_OP_COPY, as_they_are(make_copy)},
      {RT_OP_FILL, as_they_are(make_fill)},
      {RT_OP_SGD, as_they_are(make_sgd)},
      {RT_OP_ADAMW, as_they_are(make_adamw)},
  };
  return entries;
}

}  // namespace

Kernel make_kernel(const Operation& op) {
  expect_well_formed(op, true);
  const auto entry = table().find(op.name());
  const Definition* const definition = rt::sdk::find_definition(op.name());
  if (entry == table().end() || definition == nullptr) {
    throw Refusal(-1, "operation '" + std::string(op.name()) +
                          "' is not in the list of operations of this version of the contract");
  }
  if (op.post_op_count() > 0 && !definition->has(Definition::kPostOperations)) {
    op.fail("takes no post-operations; emit them as operations");
  }
  if (!entry->second.takes_sixteen_bits && has_sixteen_bit_operands(op)) {
    return make_sixteen_bit(op, *definition);
  }
  return with_post_operations(op, entry->second.make(op));
}

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : table()) names.push_back(name);
  return names;
}

}  // namespace backends::reference
