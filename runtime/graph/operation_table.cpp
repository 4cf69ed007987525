// The rows of the operations of the contract, the core and the host.
#include <span>
#include <unordered_map>

#include "rt/sdk/definitions.h"
#include "runtime/graph/compositions.h"
#include "runtime/graph/host_operations.h"
#include "runtime/graph/loss_operations.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/rules.h"
#include "runtime/graph/update_operations.h"

namespace runtime::graph {

namespace {

// The names of the enumerators are short here only.
namespace rows {

using enum Kind;
using enum SplitRule;
using enum Replication;
using enum Composed;
using enum PostOperations;

// The rules of a forward graph, by precision.
constexpr Forward narrow(GradientRule* gradient, SplitRule split) {
  return {gradient, split, Precision::kNarrow};
}
constexpr Forward as_given(GradientRule* gradient, SplitRule split) {
  return {gradient, split, Precision::kAsGiven};
}
constexpr Forward float32(GradientRule* gradient, SplitRule split) {
  return {gradient, split, Precision::kFloat32};
}
// No forward graph has the operation: it is a part of the gradient, of the update or of what a
// device fuses.
constexpr Forward kBehindLoss = as_given(no_gradient, kWhole);

// Name, kind, rules of a forward graph, replication, when it is composed, post-operations; then the
// rules for FLOPs and formulas, where there are any.
const Operation kContract[] = {
    // Linear algebra and convolution
    {RT_OP_MATMUL, kProduct, narrow(matmul_gradient, kWeights), kCopied, kAtOnce, kFuses,
     matmul_flops},
    {RT_OP_CONV2D, kProduct, narrow(conv2d_gradient, kWeights), kCopied, kAtOnce, kFuses,
     conv2d_flops},
    {RT_OP_CONV2D_BACKWARD_DATA, kProduct, kBehindLoss, kCopied, kAtOnce, kFuses,
     conv2d_backward_data_flops},
    {RT_OP_CONV2D_BACKWARD_WEIGHTS, kProduct, kBehindLoss, kCopied, kAtOnce, kAlone,
     conv2d_backward_weights_flops},
    // Pooling
    {RT_OP_MAX_POOL2D, kChooses, narrow(backward_operation, kChannels), kCopied, kAtOnce, kFuses},
    {RT_OP_MAX_POOL2D_BACKWARD, kChooses, kBehindLoss, kCopied, kAtOnce, kFuses},
    {RT_OP_AVG_POOL2D, kSum, narrow(backward_operation, kChannels), kCopied, kAtOnce, kFuses},
    {RT_OP_AVG_POOL2D_BACKWARD, kSum, kBehindLoss, kCopied, kAtOnce, kFuses},
    {RT_OP_GLOBAL_AVG_POOL, kSum, narrow(backward_operation, kChannels), kCopied, kAtOnce, kAlone},
    {RT_OP_GLOBAL_AVG_POOL_BACKWARD, kSum, kBehindLoss, kCopied, kAtOnce, kAlone},
    {RT_OP_CONV2D_POOL2D, kProduct, kBehindLoss, kCopied, kAtOnce, kAlone, conv2d_pool2d_flops},
    {RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS, kProduct, kBehindLoss, kCopied, kAtOnce, kAlone,
     conv2d_pool2d_backward_weights_flops},
    // Element by element
    {RT_OP_ACTIVATION, kElementwise, narrow(activation_gradient, kElements), kCopied, kAtOnce,
     kAlone},
    {RT_OP_ACTIVATION_BACKWARD, kElementwise, narrow(activation_backward_gradient, kWhole), kCopied,
     kAtOnce, kAlone},
    {RT_OP_ADD, kAdds, narrow(add_gradient, kBroadcast), kCopied, kAtOnce, kFuses},
    {RT_OP_SUBTRACT, kAdds, narrow(subtract_gradient, kBroadcast), kCopied, kAtOnce, kAlone},
    {RT_OP_MULTIPLY, kElementwise, narrow(multiply_gradient, kBroadcast), kCopied, kAtOnce, kAlone},
    {RT_OP_DIVIDE, kElementwise, narrow(divide_gradient, kBroadcast), kCopied, kAtOnce, kAlone},
    {RT_OP_SCALE, kElementwise, narrow(scale_gradient, kElements), kCopied, kAtOnce, kAlone},
    {RT_OP_DROPOUT, kRandom, narrow(dropout_gradient, kChannels), kCopied, kAtOnce, kAlone},
    {RT_OP_GATED_ACTIVATION, kElementwise, narrow(backward_operation, kPair), kCopied, kAtOnce,
     kAlone, nullptr, gated_activation_formula},
    {RT_OP_GATED_ACTIVATION_BACKWARD, kElementwise, kBehindLoss, kCopied, kAtOnce, kAlone, nullptr,
     gated_activation_backward_formula},
    // Reductions. In a forward graph they are over the weights of predictions, which stay float32.
    {RT_OP_REDUCE, kSum, as_given(reduce_gradient, kWhole), kMergesRows, kAtOnce, kAlone},
    {RT_OP_SQUARE_SUM, kGradientScale, as_given(square_sum_gradient, kTerm), kCopied, kLate,
     kAlone},
    {RT_OP_CLIP_SCALE, kGradientScale, kBehindLoss, kCopied, kLate, kAlone},
    {RT_OP_LOSS_SCALE, kGradientScale, kBehindLoss, kCopied, kAtOnce, kAlone},
    // Softmax and losses. A regression's targets keep the data set's type, and its predictions are
    // float32.
    {RT_OP_SOFTMAX, kNormalisesRows, narrow(backward_operation, kWhole), kCopied, kAtOnce, kAlone},
    {RT_OP_SOFTMAX_BACKWARD, kNormalisesRows, kBehindLoss, kCopied, kAtOnce, kAlone},
    {RT_OP_LOG_SOFTMAX, kNormalisesRows, narrow(backward_operation, kWhole), kCopied, kAtOnce,
     kAlone},
    {RT_OP_LOG_SOFTMAX_BACKWARD, kNormalisesRows, kBehindLoss, kCopied, kAtOnce, kAlone},
    {RT_OP_CROSS_ENTROPY, kLoss, narrow(backward_operation, kClasses), kCopied, kAtOnce, kAlone},
    {RT_OP_CROSS_ENTROPY_BACKWARD, kLoss, kBehindLoss, kCopied, kAtOnce, kAlone},
    {RT_OP_CROSS_ENTROPY_WITH_GRADIENT, kLoss, kBehindLoss, kCopied, kAtOnce, kAlone},
    {RT_OP_CROSS_ENTROPY_STATISTICS, kLoss, narrow(no_gradient, kWhole), kCopied, kAtOnce, kAlone},
    {RT_OP_CROSS_ENTROPY_MERGE, kLoss, narrow(cross_entropy_merge_gradient, kWhole), kCopied,
     kAtOnce, kAlone},
    {RT_OP_CROSS_ENTROPY_BACKWARD_APPLY, kLoss, kBehindLoss, kCopied, kAtOnce, kAlone},
    {RT_OP_MEAN_SQUARED_ERROR, kLoss, float32(backward_operation, kWhole), kCopied, kAtOnce,
     kAlone},
    {RT_OP_MEAN_SQUARED_ERROR_BACKWARD, kLoss, kBehindLoss, kCopied, kAtOnce, kAlone},
    {RT_OP_CORRECT_COUNT, kChooses, narrow(no_gradient, kClasses), kCopied, kAtOnce, kAlone},
    // Normalisation
    {RT_OP_BATCH_NORM, kNormalisesChannels, narrow(backward_operation, kNormalised), kCopied,
     kAtOnce, kFuses},
    {RT_OP_BATCH_NORM_INFERENCE, kNormalisesChannels, narrow(no_gradient, kNormalised), kCopied,
     kAtOnce, kFuses},
    {RT_OP_BATCH_NORM_BACKWARD, kNormalisesChannels, kBehindLoss, kCopied, kAtOnce, kAlone},
    {RT_OP_BATCH_NORM_STATISTICS, kNormalisesChannels, narrow(no_gradient, kMoments), kMakesRows,
     kLate, kAlone},
    {RT_OP_BATCH_NORM_MERGE, kNormalisesChannels, narrow(no_gradient, kMoments), kMergesRows, kLate,
     kAlone},
    {RT_OP_BATCH_NORM_APPLY, kNormalisesChannels, narrow(batch_norm_apply_gradient, kNormalised),
     kCopied, kAtOnce, kFuses},
    {RT_OP_BATCH_NORM_BACKWARD_STATISTICS, kNormalisesChannels, kBehindLoss, kMakesRows, kLate,
     kAlone},
    {RT_OP_BATCH_NORM_BACKWARD_APPLY, kNormalisesChannels, kBehindLoss, kCopied, kAtOnce, kAlone},
    {RT_OP_LAYER_NORM, kNormalisesRows, narrow(backward_operation, kWhole), kCopied, kAtOnce,
     kAlone},
    {RT_OP_LAYER_NORM_BACKWARD, kNormalisesRows, kBehindLoss, kCopied, kAtOnce, kFuses},
    {RT_OP_RMS_NORM, kNormalisesRows, narrow(backward_operation, kRows), kCopied, kAtOnce, kAlone},
    {RT_OP_RMS_NORM_BACKWARD, kNormalisesRows, kBehindLoss, kCopied, kAtOnce, kFuses},
    // Attention
    {RT_OP_ATTENTION, kAttention, narrow(backward_operation, kHeads), kCopied, kAtOnce, kAlone,
     attention_flops},
    {RT_OP_ATTENTION_BACKWARD, kAttention, kBehindLoss, kCopied, kAtOnce, kAlone,
     attention_backward_flops},
    {RT_OP_ROTARY, kElementwise, narrow(rotary_gradient, kHeads), kCopied, kAtOnce, kAlone, nullptr,
     rotary_formula},
    {RT_OP_DOT_PRODUCT_ATTENTION, kAttention, narrow(backward_operation, kKeyHeads), kCopied,
     kAtOnce, kAlone, dot_product_attention_flops, dot_product_attention_formula},
    {RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD, kAttention, kBehindLoss, kCopied, kAtOnce, kAlone,
     dot_product_attention_backward_flops, dot_product_attention_backward_formula},
    // Look-up and data movement
    {RT_OP_EMBEDDING, kMoves, narrow(backward_operation, kTable), kCopied, kAtOnce, kAlone},
    {RT_OP_EMBEDDING_BACKWARD, kSum, narrow(embedding_backward_gradient, kWhole), kCopied, kAtOnce,
     kAlone},
    {RT_OP_TRANSPOSE, kMoves, narrow(transpose_gradient, kWhole), kCopied, kAtOnce, kAlone, nullptr,
     transpose_formula},
    {RT_OP_CONCAT, kMoves, narrow(concat_gradient, kWhole), kCopied, kAtOnce, kAlone, nullptr,
     concat_formula},
    {RT_OP_SLICE, kMoves, narrow(slice_gradient, kWhole), kCopied, kAtOnce, kAlone},
    {RT_OP_PAD, kMoves, narrow(pad_gradient, kWhole), kCopied, kAtOnce, kAlone},
    {RT_OP_CAST, kConverts, narrow(cast_gradient, kElements), kCopied, kAtOnce, kAlone},
    {RT_OP_COPY, kCopies, narrow(copy_gradient, kElements), kCopied, kAtOnce, kAlone},
    {RT_OP_FILL, kCopies, narrow(no_gradient, kWhole), kCopied, kAtOnce, kAlone},
    // Optimizers
    {RT_OP_SGD, kOptimizer, kBehindLoss, kCopied, kLate, kAlone},
    {RT_OP_ADAMW, kOptimizer, kBehindLoss, kCopied, kLate, kAlone},
};

const Operation kCore[] = {
    {kUniformCrossEntropy, kLoss, float32(backward_operation, kWhole), kCopied, kAtOnce, kAlone},
    {"uniform_cross_entropy_backward", kLoss, kBehindLoss, kCopied, kAtOnce, kAlone},
    {kShareOfWeight, kElementwise, float32(no_gradient, kWhole), kCopied, kAtOnce, kAlone},
    {kWeightOfSamples, kSum, float32(no_gradient, kWhole), kCopied, kAtOnce, kAlone},
    {kSgdDampened, kOptimizer, kBehindLoss, kCopied, kLate, kAlone},
    {kAddWeightDecay, kDecay, kBehindLoss, kCopied, kLate, kAlone},
    {kClipValue, kUpdate, kBehindLoss, kCopied, kLate, kAlone},
    {kMovingAverage, kUpdate, kBehindLoss, kCopied, kLate, kAlone},
    {kCollective, kMoves, narrow(gradient_of_collective, kWhole), kCopied, kAtOnce, kAlone},
};

const Operation kHost[] = {
    {kDropoutMask, kRandom, kBehindLoss, kCopied, kAtOnce, kAlone},
    {kBiasCorrection, kElementwise, kBehindLoss, kCopied, kAtOnce, kAlone},
    {kHostCast, kConverts, kBehindLoss, kCopied, kAtOnce, kAlone},
    {kAttentionDocuments, kElementwise, kBehindLoss, kCopied, kAtOnce, kAlone},
    {kAttentionDropout, kRandom, kBehindLoss, kCopied, kAtOnce, kAlone},
};

}  // namespace rows

std::vector<Operation> all_operations() {
  std::vector<Operation> all;
  const auto append = [&](std::span<const Operation> from, DefinedBy definer) {
    for (Operation row : from) {
      row.defined_by = definer;
      row.definition = rt::sdk::find_definition(row.name);
      if (const Formula* const formula = find_formula(row.name)) row.formula = *formula;
      all.push_back(std::move(row));
    }
  };
  append(rows::kContract, DefinedBy::kContract);
  append(rows::kCore, DefinedBy::kCore);
  append(rows::kHost, DefinedBy::kHost);
  return all;
}

std::unordered_map<std::string_view, const Operation*> by_name() {
  std::unordered_map<std::string_view, const Operation*> rows;
  for (const Operation& row : operations()) rows.emplace(row.name, &row);
  return rows;
}

}  // namespace

const std::vector<Operation>& operations() {
  static const std::vector<Operation>& rows = *new std::vector<Operation>(all_operations());
  return rows;
}

const Operation* find_operation(std::string_view op) {
  static const std::unordered_map<std::string_view, const Operation*>& rows =
      *new std::unordered_map<std::string_view, const Operation*>(by_name());
  const auto row = rows.find(op);
  return row == rows.end() ? nullptr : row->second;
}

}  // namespace runtime::graph
