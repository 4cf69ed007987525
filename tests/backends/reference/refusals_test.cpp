// Messages about invalid operations contain actual and expected values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/reference/kernel.h"
#include "rt/sdk/post_ops.h"
#include "tests/backends/reference/harness.h"

namespace backends::reference::testing {
namespace {

using plugins::host::Operation;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Refusal, MatmulShapes) {
  EXPECT_THAT(refusal(operation(RT_OP_MATMUL, {{2, 3}, {4, 5}}, {{2, 5}})),
              AllOf(HasSubstr("matmul: operand 1 (b) is float64 [4, 5]"),
                    HasSubstr("expected float64 [3, 5]")));
  EXPECT_THAT(refusal(operation(RT_OP_MATMUL, {{2, 3}, {3, 5}}, {{5, 2}})),
              AllOf(HasSubstr("output 0 (c) is float64 [5, 2]"), HasSubstr("[2, 5]")));
  EXPECT_THAT(refusal(operation(RT_OP_MATMUL, {{3}, {3, 5}}, {{5}})),
              HasSubstr("operand 0 (a) is float64 [3], expected at least 2 dimensions"));
  EXPECT_THAT(refusal(operation(RT_OP_MATMUL, {{2, 3}}, {{2, 2}})), HasSubstr("1 inputs"));
}

TEST(Refusal, SumsOverTheRowsOfAMatrix) {
  Operation op =
      operation(RT_OP_MATMUL, {{3, 2}, {3, 5}}, {{2, 5}, {3}}, {{RT_ATTR_TRANSPOSE_A, int64_t{1}}});
  EXPECT_THAT(refusal(op), AllOf(HasSubstr("output 1 (d) is float64 [3]"), HasSubstr("[2]")));
  op.attributes.clear();
  op.inputs[0] = operation(RT_OP_MATMUL, {{2, 3}}, {}).inputs[0];
  EXPECT_THAT(refusal(op), HasSubstr("needs transpose_a"));
}

TEST(Refusal, Stores) {
  Operation op = operation(RT_OP_MATMUL, {{2, 3}, {3, 5}}, {{2, 5}, {5, 2}});
  op.post_ops = {{RT_POST_STORE, 0, -1}};
  EXPECT_THAT(refusal(op),
              AllOf(HasSubstr("output 1 (stored) is float64 [5, 2]"), HasSubstr("[2, 5]")));
  op.outputs.pop_back();
  EXPECT_THAT(refusal(op), HasSubstr("0 outputs given (those of post-operations not counted)"));
  op.post_ops.push_back(op.post_ops[0]);
  EXPECT_THAT(refusal(op), HasSubstr("2 post-operations that store"));
  Operation add = operation(RT_OP_ADD, {{2}, {2}}, {{2}, {2}});
  add.post_ops = {{RT_POST_STORE, 0, -1}};
  EXPECT_THAT(refusal(add), HasSubstr("matmul may have one, other operations none"));
}

TEST(Refusal, MixedTypes) {
  Operation op = operation(RT_OP_ADD, {{2}, {2}}, {{2}});
  op.inputs[1].dtype = RT_FLOAT32;
  EXPECT_THAT(refusal(op),
              AllOf(HasSubstr("operand 1 (b) is float32 [2]"), HasSubstr("expected float64 [2]")));
}

TEST(Refusal, UnsupportedTypeNamesTheOperandAndTheRemedy) {
  const Operation op = operation(RT_OP_MATMUL, {{2, 3}, {3, 5}}, {{2, 5}}, {}, RT_INT8);
  EXPECT_THAT(refusal(op), AllOf(HasSubstr("operand 0 (a) is int8"),
                                 HasSubstr("float32 and float64"), HasSubstr("cast")));
}

TEST(Refusal, SixteenBitsBesideOtherTypes) {
  Operation op = operation(RT_OP_MATMUL, {{2, 3}, {3, 5}}, {{2, 5}}, {}, RT_BFLOAT16);
  op.inputs[1].dtype = RT_FLOAT32;
  EXPECT_THAT(refusal(op), AllOf(HasSubstr("operand 1 is float32 [3, 5], expected bfloat16"),
                                 HasSubstr("cast")));
  op.inputs[1].dtype = RT_FLOAT16;
  EXPECT_THAT(refusal(op), HasSubstr("operand 1 is float16 [3, 5], expected bfloat16"));
  op.inputs[1] = op.inputs[0];
  EXPECT_THAT(refusal(op), AllOf(HasSubstr("operand 1 (b)"), HasSubstr("bfloat16 count as")));
}

TEST(Refusal, ParametersOfNormalisationsStayFloat32) {
  Operation op = operation(RT_OP_LAYER_NORM, {{2, 3}, {3}, {3}}, {{2, 3}},
                           {{RT_ATTR_EPSILON, 1e-5}}, RT_FLOAT32);
  op.inputs[1].dtype = RT_FLOAT16;
  EXPECT_THAT(refusal(op),
              AllOf(HasSubstr("operand 1 is float16 [3], expected float32"), HasSubstr("cast")));
  op.inputs[0].dtype = op.outputs[0].dtype = RT_FLOAT16;
  EXPECT_THAT(refusal(op), HasSubstr("operand 1 is float16 [3], expected float32, which it stays"));
  op.inputs[1].dtype = RT_FLOAT32;
  EXPECT_EQ(refusal(op), "");
}

TEST(Refusal, OptimizersHaveNoSixteenBitForm) {
  const Operation op = operation(RT_OP_SGD, {{3}, {3}, {1}, {1}}, {{3}}, {}, RT_FLOAT16);
  EXPECT_THAT(refusal(op), AllOf(HasSubstr("sgd: operand 0 is float16"),
                                 HasSubstr("no form in 16 bits"), HasSubstr("float32")));
}

TEST(Refusal, Convolution) {
  const Dims x = {1, 5, 5, 4}, y = {1, 3, 3, 2};
  EXPECT_THAT(refusal(operation(RT_OP_CONV2D, {x, {2, 3, 3, 3}}, {y})),
              AllOf(HasSubstr("[2, 3, 3, 3]"), HasSubstr("4 image channels")));
  EXPECT_THAT(refusal(operation(RT_OP_CONV2D, {x, {2, 7, 3, 4}}, {y})),
              AllOf(HasSubstr("covers 7 along height"), HasSubstr("padded image has 5")));
  EXPECT_THAT(refusal(operation(RT_OP_CONV2D, {x, {2, 3, 3, 4}}, {{1, 4, 3, 2}})),
              AllOf(HasSubstr("output 0 (y) is float64 [1, 4, 3, 2]"), HasSubstr("[1, 3, 3, 2]")));
  EXPECT_THAT(
      refusal(operation(RT_OP_CONV2D, {x, {2, 3, 3, 4}}, {y}, {{RT_ATTR_STRIDE_H, int64_t{0}}})),
      HasSubstr("stride_h is 0, expected at least 1"));
  EXPECT_THAT(refusal(operation(RT_OP_CONV2D, {{5, 5, 4}, {2, 3, 3, 4}}, {y})),
              HasSubstr("3 dimensions, expected 4"));
}

TEST(Refusal, Pooling) {
  const Attributes too_much_padding = {{RT_ATTR_KERNEL_H, int64_t{2}},
                                       {RT_ATTR_KERNEL_W, int64_t{2}},
                                       {RT_ATTR_PAD_TOP, int64_t{2}}};
  EXPECT_THAT(
      refusal(operation(RT_OP_MAX_POOL2D, {{1, 4, 4, 1}}, {{1, 5, 3, 1}}, too_much_padding)),
      HasSubstr("pad_top is 2, expected less than the kernel's 2"));
  EXPECT_THAT(refusal(operation(RT_OP_AVG_POOL2D, {{1, 4, 4, 1}}, {{1, 3, 3, 1}})),
              HasSubstr("attribute 'kernel_h' is missing"));
}

TEST(Refusal, Attributes) {
  EXPECT_THAT(refusal(operation(RT_OP_ACTIVATION, {{2}}, {{2}}, {{RT_ATTR_FUNCTION, int64_t{10}}})),
              HasSubstr("activation function is 10, expected 1 (relu) to 9 (reciprocal)"));
  EXPECT_THAT(refusal(operation(RT_OP_REDUCE, {{2}}, {{1}},
                                {{RT_ATTR_FUNCTION, int64_t{1}}, {RT_ATTR_AXES, int64_t{2}}})),
              HasSubstr("axes is the mask 0x2"));
  EXPECT_THAT(refusal(operation(RT_OP_TRANSPOSE, {{2, 3}}, {{2, 3}},
                                {{RT_ATTR_PERMUTATION, int64_t{0x11}}})),
              HasSubstr("permutation 0x11 names axis 1 at place 1"));
  EXPECT_THAT(refusal(operation(RT_OP_SLICE, {{4}}, {{3}},
                                {{RT_ATTR_AXIS, int64_t{0}}, {RT_ATTR_START, int64_t{2}}})),
              HasSubstr("[3] from 2 along axis 0 does not fit [4]"));
  EXPECT_THAT(refusal(operation(RT_OP_CONCAT, {{4}}, {{4}}, {{RT_ATTR_AXIS, int64_t{1}}})),
              HasSubstr("axis is 1, expected 0..0"));
}

TEST(Refusal, Broadcasting) {
  EXPECT_THAT(refusal(operation(RT_OP_MULTIPLY, {{2, 3}, {2}}, {{2, 3}})),
              AllOf(HasSubstr("operand 1 (b) has dims [2]"), HasSubstr("[2, 3]")));
}

TEST(Refusal, EmptyBatchOfBatchNorm) {
  EXPECT_THAT(refusal(operation(RT_OP_BATCH_NORM, {{0, 2}, {2}, {2}, {2}, {2}}, {{0, 2}, {2}, {2}},
                                {{RT_ATTR_EPSILON, 1e-5}})),
              HasSubstr("no sample"));
}

TEST(Refusal, Attention) {
  const Attributes two = {{RT_ATTR_HEADS, int64_t{2}}};
  EXPECT_THAT(refusal(operation(RT_OP_ATTENTION, {{2, 4, 9}}, {{2, 4, 3}}, two)),
              AllOf(HasSubstr("qkv has 9 features"), HasSubstr("a multiple of 6")));
  EXPECT_THAT(refusal(operation(RT_OP_ATTENTION, {{2, 4, 12}}, {{2, 4, 12}}, two)),
              HasSubstr("expected float64 [2, 4, 4]"));
  EXPECT_THAT(refusal(operation(RT_OP_ATTENTION, {{2, 4, 12}}, {{2, 4, 4}})),
              HasSubstr("heads is 0, expected at least 1"));
}

TEST(Refusal, Labels) {
  EXPECT_THAT(
      refusal(operation(RT_OP_CROSS_ENTROPY, {{4, 3}, {4}, {4}}, {{1}})),
      AllOf(HasSubstr("operand 1 (labels) is float64 [4]"), HasSubstr("expected int32 [4]")));
}

TEST(Refusal, PostOperations) {
  Operation bias = operation(RT_OP_MATMUL, {{2, 3}, {3, 5}, {4}}, {{2, 5}});
  bias.post_ops = {{RT_POST_BIAS, 0, 2}};
  EXPECT_THAT(refusal(bias), AllOf(HasSubstr("operand 2 (bias) is float64 [4]"), HasSubstr("[5]")));
  Operation missing = operation(RT_OP_MATMUL, {{2, 3}, {3, 5}}, {{2, 5}});
  missing.post_ops = {{RT_POST_RESIDUAL_ADD, 0, 7}};
  EXPECT_THAT(refusal(missing), HasSubstr("names operand 7, but there are 2 inputs"));
  Operation scale = operation(RT_OP_SCALE, {{2}}, {{2}});
  scale.post_ops = {{RT_POST_ACTIVATION, RT_ACTIVATION_RELU, -1}};
  EXPECT_THAT(refusal(scale), HasSubstr("takes no post-operations"));
}

TEST(Refusal, FunctionsOfActivationAlone) {
  for (const int32_t f : rt::sdk::kForwardOnly) {
    const Attributes function = {{RT_ATTR_FUNCTION, int64_t{f}}};
    const std::string number = std::to_string(f) + " is one of the operation activation alone";
    EXPECT_EQ(refusal(operation(RT_OP_ACTIVATION, {{2}}, {{2}}, function)), "");
    EXPECT_THAT(refusal(operation(RT_OP_ACTIVATION_BACKWARD, {{2}, {2}}, {{2}}, function)),
                HasSubstr("activation_backward: function " + number));
    Operation add = operation(RT_OP_ADD, {{2}, {2}}, {{2}});
    add.post_ops = {{RT_POST_ACTIVATION, f, -1}};
    EXPECT_THAT(refusal(add), HasSubstr("add: function " + number));
    add.inputs.push_back(add.inputs[0]);
    add.post_ops = {{RT_POST_ACTIVATION_BACKWARD, f, 2}};
    EXPECT_THAT(refusal(add), HasSubstr("add: function " + number));
  }
}

TEST(Refusal, UnknownOperationAndForeignLayout) {
  EXPECT_THAT(refusal(operation("fft", {{2}}, {{2}})), HasSubstr("'fft' is not in the list"));
  Operation foreign = operation(RT_OP_COPY, {{2}}, {{2}});
  foreign.inputs[0].layout = 7;
  EXPECT_THAT(refusal(foreign),
              AllOf(HasSubstr("operand 0 has layout 0x7"), HasSubstr("canonical")));
}

TEST(Refusal, SizesThatOverflow) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_THAT(refusal(operation(RT_OP_COPY, {{huge, huge}}, {{huge, huge}})),
              HasSubstr("fits the address space"));
}

TEST(Refusal, ConvolutionPooling) {
  Operation op = operation(RT_OP_CONV2D_POOL2D, {{1, 5, 5, 1}, {2, 2, 2, 1}, {2}}, {{1, 2, 2, 2}},
                           {{RT_ATTR_KERNEL_H, int64_t{2}}, {RT_ATTR_KERNEL_W, int64_t{2}}});
  EXPECT_THAT(refusal(op), HasSubstr("attribute 'average' is missing"));
  op.attributes.push_back({RT_ATTR_AVERAGE, int64_t{0}});
  EXPECT_EQ(refusal(op), "");
  for (auto* list : {&op.inputs, &op.outputs}) {
    for (rt_tensor_desc& tensor : *list) tensor.dtype = RT_BFLOAT16;
  }
  EXPECT_THAT(refusal(op), AllOf(HasSubstr("conv2d_pool2d: operand 0 is bfloat16"),
                                 HasSubstr("no form in 16 bits, cast the operand to float32")));
}

}  // namespace
}  // namespace backends::reference::testing
