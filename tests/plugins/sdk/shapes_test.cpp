// The sizes of operations, against numbers worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rt/sdk/broadcast.h"
#include "rt/sdk/conv_pool.h"
#include "rt/sdk/convolution.h"
#include "rt/sdk/elementwise.h"
#include "rt/sdk/embedding.h"
#include "rt/sdk/losses.h"
#include "rt/sdk/matmul.h"
#include "rt/sdk/pooling.h"
#include "rt/sdk/reduction.h"
#include "rt/sdk/strided.h"
#include "rt/sdk/updates.h"
#include "tests/plugins/sdk/description.h"

namespace rt::sdk {
namespace {

using testing::HasSubstr;

Description strided_convolution(const char* name) {
  Description d(name);
  d.integer(RT_ATTR_STRIDE_H, 2).integer(RT_ATTR_PAD_TOP, 1).integer(RT_ATTR_PAD_BOTTOM, 1);
  d.integer(RT_ATTR_DILATION_W, 2).integer(RT_ATTR_GROUPS, 2);
  return d;
}

// Height: (9 + 2 - 3) / 2 + 1 = 5. Width: 8 - 2 (3 - 1) - 1 + 1 = 4.
TEST(ConvolutionShape, ReadsTheSameSizesForAllThreeOperations) {
  const std::vector<int64_t> x = {2, 9, 8, 6}, w = {4, 3, 3, 3}, y = {2, 5, 4, 4};
  Description forward = strided_convolution(RT_OP_CONV2D);
  forward.in(x).in(w).out(y);
  Description data = strided_convolution(RT_OP_CONV2D_BACKWARD_DATA);
  data.in(y).in(w).out(x);
  Description weights = strided_convolution(RT_OP_CONV2D_BACKWARD_WEIGHTS);
  weights.in(x).in(y).out(w).out({4});
  for (const ConvolutionShape& s :
       {conv2d_shape(Operation(forward.desc()), RT_FLOAT32),
        conv2d_backward_data_shape(Operation(data.desc()), RT_FLOAT32),
        conv2d_backward_weights_shape(Operation(weights.desc()), RT_FLOAT32)}) {
    EXPECT_EQ(s.image(), x);
    EXPECT_EQ(s.weights(), w);
    EXPECT_EQ(s.result(), y);
    EXPECT_EQ(s.patch(), 27);
    EXPECT_EQ(s.og, 2);
    EXPECT_EQ(s.window.row(1, 2), 3);     // 1 * 2 - 1 + 2
    EXPECT_EQ(s.window.column(1, 2), 5);  // 1 + 2 * 2
  }
}

TEST(ConvolutionShape, RefusesOtherSizes) {
  Description d = strided_convolution(RT_OP_CONV2D);
  d.in({2, 9, 8, 6}).in({4, 3, 3, 3}).out({2, 5, 5, 4});
  EXPECT_EQ(error_of([&] { conv2d_shape(Operation(d.desc()), RT_FLOAT32); }),
            "conv2d: output 0 (y) is float32 [2, 5, 5, 4], expected float32 [2, 5, 4, 4]");
  Description wide(RT_OP_CONV2D);
  wide.in({1, 2, 2, 1}).in({1, 3, 3, 1}).out({1, 1, 1, 1});
  EXPECT_THAT(error_of([&] { conv2d_shape(Operation(wide.desc()), RT_FLOAT32); }),
              HasSubstr("the window covers 3 along height, but the padded image has 2"));
  Description groups(RT_OP_CONV2D);
  groups.in({1, 3, 3, 5}).in({4, 3, 3, 2}).out({1, 1, 1, 4}).integer(RT_ATTR_GROUPS, 2);
  EXPECT_THAT(error_of([&] { conv2d_shape(Operation(groups.desc()), RT_FLOAT32); }),
              HasSubstr("with 2 groups and 5 image channels"));
}

TEST(PoolingShape, RoundsDownAndRefusesWindowsOfPadding) {
  Description d(RT_OP_MAX_POOL2D);
  d.in({2, 9, 7, 3}).out({2, 4, 3, 3}).integer(RT_ATTR_KERNEL_H, 2).integer(RT_ATTR_KERNEL_W, 2);
  d.integer(RT_ATTR_STRIDE_H, 2).integer(RT_ATTR_STRIDE_W, 2);
  const PoolingShape s = pooling_forward_shape(Operation(d.desc()), RT_FLOAT32);
  EXPECT_EQ(s.p, 4);
  EXPECT_EQ(s.q, 3);
  EXPECT_EQ(s.result(), 36);
  EXPECT_TRUE(s.count_include_pad);
  d.integer(RT_ATTR_PAD_TOP, 2);
  EXPECT_THAT(error_of([&] { pooling_forward_shape(Operation(d.desc()), RT_FLOAT32); }),
              HasSubstr("pad_top is 2, expected less than the kernel's 2"));
}

// 9 x 8 pixels become 7 x 6, of which windows of 3 x 2 leave the last row out.
TEST(ConvPoolShape, LeavesOutWhatFillsNoWindow) {
  Description forward(RT_OP_CONV2D_POOL2D);
  forward.in({2, 9, 8, 3}).in({5, 3, 3, 3}).in({5}).out({2, 2, 3, 5});
  Description backward(RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS);
  backward.in({2, 9, 8, 3}).in({2, 2, 3, 5}).out({5, 3, 3, 3}).out({5});
  for (Description* d : {&forward, &backward}) {
    d->integer(RT_ATTR_KERNEL_H, 3).integer(RT_ATTR_KERNEL_W, 2);
    d->integer(RT_ATTR_AVERAGE, 1).integer(RT_ATTR_FUNCTION, RT_ACTIVATION_TANH);
  }
  for (const ConvPoolShape& s :
       {conv2d_pool2d_shape(Operation(forward.desc()), RT_FLOAT32),
        conv2d_pool2d_backward_weights_shape(Operation(backward.desc()), RT_FLOAT32)}) {
    EXPECT_EQ(s.convolution.result(), (Dims{2, 7, 6, 5}));
    EXPECT_EQ(s.result(), (Dims{2, 2, 3, 5}));
    EXPECT_TRUE(s.average);
    EXPECT_EQ(s.function, RT_ACTIVATION_TANH);
  }
}

TEST(ConvPoolShape, RefusesOtherSizesAndFunctions) {
  const auto refused = [](int64_t kernel, int64_t average, int64_t function,
                          const std::vector<int64_t>& y) {
    Description d(RT_OP_CONV2D_POOL2D);
    d.in({1, 6, 6, 1}).in({2, 3, 3, 1}).in({2}).out(y);
    d.integer(RT_ATTR_KERNEL_H, kernel).integer(RT_ATTR_KERNEL_W, 2);
    d.integer(RT_ATTR_AVERAGE, average).integer(RT_ATTR_FUNCTION, function);
    return error_of([&] { conv2d_pool2d_shape(Operation(d.desc()), RT_FLOAT32); });
  };
  EXPECT_THAT(refused(5, 0, 0, {1, 1, 2, 2}),
              HasSubstr("covers 5 along the convolution's height, but the padded image has 4"));
  EXPECT_THAT(refused(0, 0, 0, {1, 1, 2, 2}), HasSubstr("kernel_h is 0, expected at least 1"));
  EXPECT_THAT(refused(2, 2, 0, {1, 2, 2, 2}),
              HasSubstr("average is 2, expected 0 (maximum) or 1 (mean)"));
  EXPECT_THAT(refused(2, 0, RT_ACTIVATION_EXP, {1, 2, 2, 2}),
              HasSubstr("function is 6, expected 0 (none) to 5 (sigmoid)"));
  EXPECT_THAT(refused(2, 0, 0, {1, 4, 4, 2}),
              HasSubstr("output 0 (y) is float32 [1, 4, 4, 2], expected float32 [1, 2, 2, 2]"));
}

TEST(MatmulShape, ReadsTransposesBatchesAndRowSums) {
  Description d(RT_OP_MATMUL);
  d.in({3, 2, 7, 5}).in({11, 7}).out({3, 2, 5, 11});
  d.integer(RT_ATTR_TRANSPOSE_A, 1).integer(RT_ATTR_TRANSPOSE_B, 1);
  const MatmulShape s = matmul_shape(Operation(d.desc()), RT_FLOAT32);
  EXPECT_EQ(s.batch, 6);
  EXPECT_EQ(s.m, 5);
  EXPECT_EQ(s.n, 11);
  EXPECT_EQ(s.k, 7);
  EXPECT_FALSE(s.b_has_batch);
  EXPECT_FALSE(s.sums_rows);
  Description plain(RT_OP_MATMUL);
  plain.in({5, 7}).in({7, 11}).out({5, 11}).out({5});
  EXPECT_THAT(error_of([&] { matmul_shape(Operation(plain.desc()), RT_FLOAT32); }),
              HasSubstr("needs transpose_a"));
  Description sums(RT_OP_MATMUL);
  sums.in({7, 5}).in({7, 11}).out({5, 11}).out({5});
  sums.integer(RT_ATTR_TRANSPOSE_A, 1);
  EXPECT_TRUE(matmul_shape(Operation(sums.desc()), RT_FLOAT32).sums_rows);
}

TEST(BroadcastShape, RepeatsDimensionsOfOne) {
  Description d(RT_OP_ADD);
  d.in({3, 1, 5}).in({4, 5}).out({3, 4, 5});
  const BroadcastShape s = broadcast_shape(Operation(d.desc()), RT_FLOAT32);
  EXPECT_EQ(s.a, (Dims{5, 0, 1}));
  EXPECT_EQ(s.b, (Dims{0, 5, 1}));
  EXPECT_EQ(s.in_place, 0u);
  Description wrong(RT_OP_ADD);
  wrong.in({3}).in({4}).out({4});
  EXPECT_THAT(error_of([&] { broadcast_shape(Operation(wrong.desc()), RT_FLOAT32); }),
              HasSubstr("operand 0 (a) has dims [3], which do not broadcast to the result's [4]"));
}

TEST(ReductionShape, KeepsOrLeavesOutReducedAxes) {
  for (const auto& y : {std::vector<int64_t>{2, 1, 4}, std::vector<int64_t>{2, 4}}) {
    Description d(RT_OP_REDUCE);
    d.in({2, 3, 4}).out(y).integer(RT_ATTR_FUNCTION, RT_REDUCE_MEAN).integer(RT_ATTR_AXES, 2);
    const ReductionShape s = reduction_shape(Operation(d.desc()), RT_FLOAT32);
    EXPECT_EQ(s.results, 8);
    EXPECT_EQ(s.reduced, 3);
    EXPECT_EQ(s.result_strides, (Dims{4, 0, 1}));
  }
  Description d(RT_OP_REDUCE);
  d.in({2}).out({1}).integer(RT_ATTR_FUNCTION, RT_REDUCE_SUM).integer(RT_ATTR_AXES, 2);
  EXPECT_THAT(error_of([&] { reduction_shape(Operation(d.desc()), RT_FLOAT32); }),
              HasSubstr("axes is the mask 0x2"));
}

TEST(ActivationShape, KnowsWhichFunctionsHaveAGradient) {
  Description forward(RT_OP_ACTIVATION);
  forward.in({2, 3}).out({2, 3}).integer(RT_ATTR_FUNCTION, RT_ACTIVATION_EXP);
  const ActivationShape s = activation_shape(Operation(forward.desc()), RT_FLOAT32);
  EXPECT_EQ(s.count, 6);
  EXPECT_EQ(s.function, RT_ACTIVATION_EXP);
  Description backward(RT_OP_ACTIVATION_BACKWARD);
  backward.in({2, 3}).in({2, 3}).out({2, 3}).integer(RT_ATTR_FUNCTION, RT_ACTIVATION_EXP);
  EXPECT_THROW(activation_backward_shape(Operation(backward.desc()), RT_FLOAT32), Refusal);
  Description tanh(RT_OP_ACTIVATION_BACKWARD);
  tanh.in({2, 3}).in({2, 3}).out({2, 3}).integer(RT_ATTR_FUNCTION, RT_ACTIVATION_TANH);
  EXPECT_EQ(activation_backward_shape(Operation(tanh.desc()), RT_FLOAT32).count, 6);
  Description unknown(RT_OP_ACTIVATION);
  unknown.in({2}).out({2}).integer(RT_ATTR_FUNCTION, RT_ACTIVATION_SILU);
  EXPECT_THAT(
      error_of([&] { activation_shape(Operation(unknown.desc()), RT_FLOAT32); }),
      HasSubstr("activation function is 10, expected 1 (relu) to 9 (reciprocal) or 11 (sin)"));
  Description sizes(RT_OP_SCALE);
  sizes.in({2, 3}).out({3, 2});
  EXPECT_THAT(error_of([&] { unary_count(Operation(sizes.desc()), RT_FLOAT32); }),
              HasSubstr("output 0 (y) is float32 [3, 2], expected float32 [2, 3]"));
}

TEST(LossShape, HasARowForEachLabelOrSample) {
  Description classes(RT_OP_CROSS_ENTROPY);
  classes.in({2, 5, 7}).in({2, 5}, RT_INT32).in({2, 5}).out({1});
  const LossShape tokens = loss_shape(Operation(classes.desc()), RT_FLOAT32, class_rows);
  EXPECT_EQ(tokens.rows, 10);
  EXPECT_EQ(tokens.width, 7);
  Description samples(RT_OP_MEAN_SQUARED_ERROR_BACKWARD);
  samples.in({4, 3, 2}).in({4, 3, 2}).in({4}).in({1}).out({4, 3, 2});
  const LossShape s = loss_backward_shape(Operation(samples.desc()), RT_FLOAT32, sample_rows, "dy");
  EXPECT_EQ(s.rows, 4);
  EXPECT_EQ(s.width, 6);
  Description empty(RT_OP_CORRECT_COUNT);
  empty.in({4, 0}).in({4}, RT_INT32).in({4}).out({1});
  EXPECT_THAT(error_of([&] { loss_shape(Operation(empty.desc()), RT_FLOAT32, class_rows); }),
              HasSubstr("operand 0 (logits) has no class"));
  Description labels(RT_OP_CROSS_ENTROPY);
  labels.in({4, 3}).in({4}).in({4}).out({1});
  EXPECT_THAT(error_of([&] { loss_shape(Operation(labels.desc()), RT_FLOAT32, class_rows); }),
              HasSubstr("operand 1 (labels) is float32 [4], expected int32 [4]"));
}

TEST(EmbeddingShape, FindsRowsOfSlices) {
  Description forward(RT_OP_EMBEDDING);
  forward.in({2, 3}, RT_INT32).in({10, 4}).out({2, 3, 4}).integer(RT_ATTR_FIRST_ROW, 20);
  const EmbeddingShape s = embedding_shape(Operation(forward.desc()), RT_FLOAT32);
  EXPECT_EQ(s.count, 6);
  EXPECT_EQ(s.width, 4);
  EXPECT_EQ(s.row_of(20), 0);
  EXPECT_EQ(s.row_of(29), 9);
  EXPECT_EQ(s.row_of(30), -1);
  EXPECT_EQ(s.row_of(19), -1);
  Description backward(RT_OP_EMBEDDING_BACKWARD);
  backward.in({6}, RT_INT32).in({6, 4}).out({10, 4});
  const EmbeddingShape whole = embedding_backward_shape(Operation(backward.desc()), RT_FLOAT32);
  EXPECT_EQ(whole.rows, 10);
  EXPECT_EQ(whole.row_of(3), 3);
  Description below(RT_OP_EMBEDDING);
  below.in({6}, RT_INT32).in({10, 4}).out({6, 4}).integer(RT_ATTR_FIRST_ROW, -2);
  EXPECT_THAT(error_of([&] { embedding_shape(Operation(below.desc()), RT_FLOAT32); }),
              HasSubstr("first_row is -2, expected at least -1"));
  Description wrong(RT_OP_EMBEDDING_BACKWARD);
  wrong.in({6}, RT_INT32).in({6, 5}).out({10, 4});
  EXPECT_THAT(error_of([&] { embedding_backward_shape(Operation(wrong.desc()), RT_FLOAT32); }),
              HasSubstr("operand 1 (dy) is float32 [6, 5], expected float32 [6, 4]"));
}

TEST(Update, HasStateAndAnOutputIn16Bits) {
  Description plain(RT_OP_SGD);
  plain.in({3, 2}).in({3, 2}).in({1}).in({1}).out({3, 2}).number(RT_ATTR_WEIGHT_DECAY, 0.5);
  const SgdUpdate s = sgd_update(Operation(plain.desc()), RT_FLOAT32);
  EXPECT_EQ(s.count, 6);
  EXPECT_EQ(s.states, 0u);
  EXPECT_FALSE(s.writes_narrow);
  EXPECT_EQ(s.weight_decay, 0.5);
  Description momentum(RT_OP_SGD);
  momentum.in({6}).in({6}).in({1}).in({1}).in({6}).out({6}).out({6}).out({6}, RT_BFLOAT16);
  momentum.number(RT_ATTR_MOMENTUM, 0.9).integer(RT_ATTR_NESTEROV, 1);
  const SgdUpdate m = sgd_update(Operation(momentum.desc()), RT_FLOAT32);
  EXPECT_EQ(m.states, 1u);
  EXPECT_TRUE(m.writes_narrow);
  EXPECT_TRUE(m.nesterov);
  Description adamw(RT_OP_ADAMW);
  adamw.in({6}).in({6}).in({1}).in({1}).in({6}).in({6}).in({1}, RT_INT64);
  adamw.out({6}).out({6}).out({6});
  adamw.number(RT_ATTR_BETA1, 0.9).number(RT_ATTR_BETA2, 1.0).number(RT_ATTR_EPSILON, 1e-8);
  EXPECT_THAT(error_of([&] { adamw_update(Operation(adamw.desc()), RT_FLOAT32); }),
              HasSubstr("beta2 is 1, expected 0 <= beta2 < 1"));
  Description good(RT_OP_ADAMW);
  good.in({6}).in({6}).in({1}).in({1}).in({6}).in({6}).in({1}, RT_INT64).out({6}).out({6}).out({6});
  good.number(RT_ATTR_BETA1, 0.9).number(RT_ATTR_BETA2, 0.99).number(RT_ATTR_EPSILON, 1e-8);
  const AdamWUpdate a = adamw_update(Operation(good.desc()), RT_FLOAT32);
  EXPECT_EQ(a.states, 2u);
  EXPECT_EQ(a.beta2, 0.99);
  Description narrow(RT_OP_SGD);
  narrow.in({2}).in({2}).in({1}).in({1}).out({2}).out({7}, RT_FLOAT16);
  EXPECT_THAT(error_of([&] { sgd_update(Operation(narrow.desc()), RT_FLOAT32); }),
              HasSubstr("output 1 (narrow) is float16 [7], expected float16 [2]"));
  Description other(RT_OP_SGD);
  other.in({6}).in({6}).in({1}).in({1}).in({5}).out({6}).out({6}).number(RT_ATTR_MOMENTUM, 0.9);
  EXPECT_THAT(error_of([&] { sgd_update(Operation(other.desc()), RT_FLOAT32); }),
              HasSubstr("operand 4 (velocity) is float32 [5], expected float32 [6]"));
}

TEST(MergeDims, MergesWhatAllOperandsReadAsOne) {
  // [2, 3, 4] + [4]: rows and columns.
  const auto row = merge_dims<2>({2, 3, 4}, {Dims{12, 4, 1}, Dims{0, 0, 1}});
  EXPECT_EQ(row.rank, 2);
  EXPECT_EQ(row.dims[0], 6);
  EXPECT_EQ(row.strides[0][0], 4);
  EXPECT_EQ(row.strides[1][0], 0);
  const auto flat = merge_dims<1>({2, 1, 4}, {Dims{4, 4, 1}});
  EXPECT_EQ(flat.rank, 1);
  EXPECT_EQ(flat.dims[0], 8);
  EXPECT_EQ(flat.strides[0][0], 1);
  EXPECT_EQ(merge_dims<1>({}, {Dims{}}).dims[0], 1) << "a scalar has one element";
  const auto transposed = merge_dims<1>({4, 3}, {Dims{1, 4}});
  EXPECT_EQ(transposed.rank, 2);
}

}  // namespace
}  // namespace rt::sdk
