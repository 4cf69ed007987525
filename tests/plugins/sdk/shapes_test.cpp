// The sizes of operations, against numbers worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rt/sdk/broadcast.h"
#include "rt/sdk/convolution.h"
#include "rt/sdk/matmul.h"
#include "rt/sdk/pooling.h"
#include "rt/sdk/reduction.h"
#include "rt/sdk/strided.h"
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
