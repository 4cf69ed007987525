// The table of operations, and the checks that all operations share.
#include <algorithm>
#include <map>
#include <string_view>

#include "backends/reference/check.h"
#include "backends/reference/families.h"
#include "backends/reference/sixteen_bit.h"

namespace backends::reference {
namespace {

// How an operation handles operands in float16 and bfloat16: by conversions around the kernel on
// float32, by its own factory, or not at all.
enum class Sixteen { kConverted, kOwn, kNone };

struct Entry {
  Factory make;
  bool post_operations = false;
  // Bit i: operand i is float32 even if other operands are in 16 bits (operations.md,
  // "Conventions").
  uint32_t wide_inputs = 0, wide_outputs = 0;
  Sixteen sixteen = Sixteen::kConverted;
};

constexpr Entry without_sixteen_bits(Factory make) { return {make, false, 0, 0, Sixteen::kNone}; }
// For operations that move elements unchanged, or that convert them themselves: a cast, and the
// optimizers, which round one output only.
constexpr Entry as_they_are(Factory make) { return {make, false, 0, 0, Sixteen::kOwn}; }

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
      {RT_OP_CONV2D_POOL2D, without_sixteen_bits(make_conv2d_pool2d)},
      {RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS,
       without_sixteen_bits(make_conv2d_pool2d_backward_weights)},
      {RT_OP_ACTIVATION, {make_activation}},
      {RT_OP_ACTIVATION_BACKWARD, {make_activation_backward}},
      {RT_OP_ADD, {make_arithmetic, true}},
      {RT_OP_SUBTRACT, {make_arithmetic}},
      {RT_OP_MULTIPLY, {make_arithmetic}},
      {RT_OP_DIVIDE, {make_arithmetic}},
      {RT_OP_SCALE, {make_scale}},
      {RT_OP_DROPOUT, {make_dropout}},
      {RT_OP_REDUCE, {make_reduce}},
      {RT_OP_SQUARE_SUM, {make_square_sum, false, 0, 0b1}},
      {RT_OP_CLIP_SCALE, without_sixteen_bits(make_clip_scale)},
      {RT_OP_LOSS_SCALE, without_sixteen_bits(make_loss_scale)},
      {RT_OP_SOFTMAX, {make_softmax}},
      {RT_OP_SOFTMAX_BACKWARD, {make_softmax_backward}},
      {RT_OP_LOG_SOFTMAX, {make_log_softmax}},
      {RT_OP_LOG_SOFTMAX_BACKWARD, {make_log_softmax_backward}},
      {RT_OP_CROSS_ENTROPY, {make_cross_entropy, false, 0b100, 0b1}},
      {RT_OP_CROSS_ENTROPY_BACKWARD, {make_cross_entropy_backward, false, 0b1100}},
      {RT_OP_CROSS_ENTROPY_WITH_GRADIENT, {make_cross_entropy_with_gradient, false, 0b1100, 0b101}},
      {RT_OP_CROSS_ENTROPY_STATISTICS, {make_cross_entropy_statistics, false, 0, 0b1}},
      {RT_OP_CROSS_ENTROPY_MERGE, without_sixteen_bits(make_cross_entropy_merge)},
      {RT_OP_CROSS_ENTROPY_BACKWARD_APPLY, {make_cross_entropy_backward_apply, false, 0b11100}},
      {RT_OP_MEAN_SQUARED_ERROR, {make_mean_squared_error, false, 0b100, 0b1}},
      {RT_OP_MEAN_SQUARED_ERROR_BACKWARD, {make_mean_squared_error_backward, false, 0b1100}},
      {RT_OP_CORRECT_COUNT, {make_correct_count, false, 0b100, 0b1}},
      {RT_OP_BATCH_NORM, {make_batch_norm, true, 0b11110, 0b110}},
      {RT_OP_BATCH_NORM_INFERENCE, {make_batch_norm_inference, true, 0b11110}},
      {RT_OP_BATCH_NORM_BACKWARD, {make_batch_norm_backward, false, 0b100, 0b110}},
      {RT_OP_BATCH_NORM_STATISTICS, {make_batch_norm_statistics, false, 0b10, 0b1}},
      {RT_OP_BATCH_NORM_MERGE, without_sixteen_bits(make_batch_norm_merge)},
      {RT_OP_BATCH_NORM_APPLY, {make_batch_norm_apply, true, 0b1110}},
      {RT_OP_BATCH_NORM_BACKWARD_STATISTICS,
       {make_batch_norm_backward_statistics, false, 0b100, 0b1}},
      {RT_OP_BATCH_NORM_BACKWARD_APPLY, {make_batch_norm_backward_apply, false, 0b111100}},
      {RT_OP_LAYER_NORM, {make_layer_norm, false, 0b110}},
      {RT_OP_LAYER_NORM_BACKWARD, {make_layer_norm_backward, true, 0b100, 0b110}},
      {RT_OP_ATTENTION, {make_attention}},
      {RT_OP_ATTENTION_BACKWARD, {make_attention_backward}},
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

// Whether a product of matrices in 16 bits has its results in float32. Its results and the operands
// of its post-operations are then in float32.
bool has_wide_results(const Operation& op) {
  return op.is(RT_OP_MATMUL) && op.output_count() > 0 && op.output(0).dtype == RT_FLOAT32;
}

Kernel make_with_sixteen_bits(const Operation& op, const Entry& entry) {
  if (entry.sixteen == Sixteen::kNone) refuse_sixteen_bit(op);
  if (has_wide_results(op)) return make_sixteen_bit(op, ~0b11U, ~0U);
  return make_sixteen_bit(op, entry.wide_inputs, entry.wide_outputs);
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
  if (entry->second.sixteen != Sixteen::kOwn && has_sixteen_bit_operands(op)) {
    return make_with_sixteen_bits(op, entry->second);
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
