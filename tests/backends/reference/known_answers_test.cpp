// Compares results with answers computed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/backends/reference/harness.h"

namespace backends::reference::testing {
namespace {

using plugins::host::Operation;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Pointwise;

TEST(KnownAnswer, Matmul) {
  const Operation op = operation(RT_OP_MATMUL, {{2, 3}, {3, 2}}, {{2, 2}});
  EXPECT_THAT(run1(op, {{1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}}), ElementsAre(58, 64, 139, 154));
}

TEST(KnownAnswer, MatmulAddsUpTheRowsOfATransposedOperand) {
  Operation op =
      operation(RT_OP_MATMUL, {{2, 3}, {2, 1}}, {{3, 1}, {3}}, {{RT_ATTR_TRANSPOSE_A, int64_t{1}}});
  const std::vector<Array> inputs = {{1, 2, 3, 4, 5, 6}, {1, 10}};
  EXPECT_THAT(run(op, inputs), ElementsAre(ElementsAre(41, 52, 63), ElementsAre(5, 7, 9)));
  // In front of what a post-operation stores.
  op.outputs.push_back(op.outputs[0]);
  op.post_ops = {{RT_POST_STORE, 0, -1}, {RT_POST_ACTIVATION, RT_ACTIVATION_RELU, -1}};
  EXPECT_THAT(run(op, inputs),
              ElementsAre(ElementsAre(41, 52, 63), ElementsAre(5, 7, 9), ElementsAre(41, 52, 63)));
}

TEST(KnownAnswer, MatmulWithoutRowsOrInnerDimension) {
  EXPECT_TRUE(
      run1(operation(RT_OP_MATMUL, {{0, 3}, {3, 2}}, {{0, 2}}), {{}, Array(6, 1.0)}).empty());
  EXPECT_THAT(run1(operation(RT_OP_MATMUL, {{1, 0}, {0, 2}}, {{1, 2}}), {{}, {}}),
              ElementsAre(0, 0));
}

TEST(KnownAnswer, ConvolutionIsCrossCorrelation) {
  const Operation op = operation(RT_OP_CONV2D, {{1, 3, 3, 1}, {1, 2, 2, 1}}, {{1, 2, 2, 1}});
  EXPECT_THAT(run1(op, {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4}}), ElementsAre(37, 47, 67, 77));
}

TEST(KnownAnswer, PostOperationsRunInOrder) {
  Operation op = operation(RT_OP_MATMUL, {{1, 1}, {1, 2}, {2}, {1, 2}}, {{1, 2}});
  op.post_ops = {{RT_POST_BIAS, 0, 2},
                 {RT_POST_ACTIVATION, RT_ACTIVATION_RELU, -1},
                 {RT_POST_RESIDUAL_ADD, 0, 3}};
  // 2*(1,-3) + (1,1) = (3,-5) -> relu (3,0) -> + (10,20)
  EXPECT_THAT(run1(op, {{2}, {1, -3}, {1, 1}, {10, 20}}), ElementsAre(13, 20));
}

TEST(KnownAnswer, AStoreKeepsWhatStandsInFrontOfIt) {
  Operation op = operation(RT_OP_MATMUL, {{1, 1}, {1, 2}, {2}}, {{1, 2}, {1, 2}});
  op.post_ops = {
      {RT_POST_BIAS, 0, 2}, {RT_POST_STORE, 0, -1}, {RT_POST_ACTIVATION, RT_ACTIVATION_RELU, -1}};
  EXPECT_THAT(run(op, {{2}, {1, -3}, {1, 1}}), ElementsAre(ElementsAre(3, 0), ElementsAre(3, -5)));
}

Attributes pooling(int64_t kernel, int64_t stride, int64_t pad_top_left) {
  return {{RT_ATTR_KERNEL_H, kernel},      {RT_ATTR_KERNEL_W, kernel},
          {RT_ATTR_STRIDE_H, stride},      {RT_ATTR_STRIDE_W, stride},
          {RT_ATTR_PAD_TOP, pad_top_left}, {RT_ATTR_PAD_LEFT, pad_top_left}};
}

TEST(KnownAnswer, MaxPoolTiesGoToTheFirstElement) {
  Saved saved;
  EXPECT_THAT(run(operation(RT_OP_MAX_POOL2D, {{1, 2, 2, 1}}, {{1, 1, 1, 1}}, pooling(2, 2, 0)),
                  {{3, 3, 3, 3}}, &saved)[0],
              ElementsAre(3));
  EXPECT_THAT(
      run(operation(RT_OP_MAX_POOL2D_BACKWARD, {{1, 1, 1, 1}}, {{1, 2, 2, 1}}, pooling(2, 2, 0)),
          {{5}}, &saved)[0],
      ElementsAre(5, 0, 0, 0));
}

TEST(KnownAnswer, PaddingNeverWinsTheMaxPool) {
  const Operation op =
      operation(RT_OP_MAX_POOL2D, {{1, 2, 2, 1}}, {{1, 1, 1, 1}}, pooling(2, 2, 1));
  EXPECT_THAT(run1(op, {{-4, -3, -2, -1}}), ElementsAre(-4));
}

TEST(KnownAnswer, AveragePoolCountsPaddingOrNot) {
  Operation op = operation(RT_OP_AVG_POOL2D, {{1, 2, 2, 1}}, {{1, 1, 1, 1}}, pooling(2, 2, 1));
  EXPECT_THAT(run1(op, {{4, 8, 12, 16}}), ElementsAre(1));
  op.attributes.push_back({RT_ATTR_COUNT_INCLUDE_PAD, int64_t{0}});
  EXPECT_THAT(run1(op, {{4, 8, 12, 16}}), ElementsAre(4));
}

Attributes convolution_pooling(int64_t average, int64_t function) {
  return {{RT_ATTR_KERNEL_H, int64_t{2}},
          {RT_ATTR_KERNEL_W, int64_t{2}},
          {RT_ATTR_AVERAGE, average},
          {RT_ATTR_FUNCTION, function}};
}

// 3x5 pixels times 2, plus 1: the last row and the last column fill no window.
TEST(KnownAnswer, ConvolutionPooling) {
  const Array image = {1, -2, 0, 4, 9, 3, 2, -1, -5, 9, 9, 9, 9, 9, 9};
  const std::vector<Dims> in = {{1, 3, 5, 1}, {1, 1, 1, 1}, {1}}, out = {{1, 1, 2, 1}};
  const std::vector<Dims> back = {in[0], out[0]}, gradients = {in[1], in[2]};
  const auto expect = [&](int64_t average, int64_t function, const Array& y, double dw, double db) {
    const Attributes attributes = convolution_pooling(average, function);
    Saved saved;
    EXPECT_EQ(run(operation(RT_OP_CONV2D_POOL2D, in, out, attributes), {image, {2}, {1}}, &saved),
              std::vector<Array>{y});
    EXPECT_EQ(run(operation(RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS, back, gradients, attributes),
                  {image, {10, 100}}, &saved),
              (std::vector<Array>{{dw}, {db}}));
  };
  expect(0, 0, {7, 9}, 3 * 10 + 4 * 100, 110);
  expect(0, RT_ACTIVATION_RELU, {7, 9}, 3 * 10 + 4 * 100, 110);
  // The means are those of 3, -3, 7, 5 and of 1, 9, -1, -9.
  expect(1, 0, {3, 0}, 4 * 2.5 - 2 * 25, 110);
  expect(1, RT_ACTIVATION_RELU, {3.75, 2.5}, 6 * 2.5 + 4 * 25, 3 * 2.5 + 2 * 25);
}

TEST(KnownAnswer, ConvolutionPoolingOfEqualElementsTakesTheFirst) {
  const std::vector<Dims> in = {{1, 2, 2, 1}, {1, 1, 1, 1}, {1}}, out = {{1, 1, 1, 1}};
  for (const int64_t function : {int64_t{0}, int64_t{RT_ACTIVATION_RELU}}) {
    Saved saved;
    const Attributes attributes = convolution_pooling(0, function);
    // All products are 6: of x = (1, 1, 1, 1) the first is taken, whose gradient is that of all.
    run(operation(RT_OP_CONV2D_POOL2D, in, out, attributes), {{1, 1, 1, 1}, {6}, {0}}, &saved);
    const auto gradients = run(operation(RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS, {in[0], out[0]},
                                         {in[1], in[2]}, attributes),
                               {{2, 3, 5, 7}, {10}}, &saved);
    EXPECT_THAT(gradients, ElementsAre(ElementsAre(20), ElementsAre(10)));
  }
}

TEST(KnownAnswer, GlobalAveragePool) {
  const Operation op = operation(RT_OP_GLOBAL_AVG_POOL, {{1, 2, 1, 2}}, {{1, 2}});
  EXPECT_THAT(run1(op, {{1, 10, 3, 20}}), ElementsAre(2, 15));
}

TEST(KnownAnswer, Activations) {
  const auto value = [](int64_t function, double x) {
    return run1(operation(RT_OP_ACTIVATION, {{1}}, {{1}}, {{RT_ATTR_FUNCTION, function}}),
                {{x}})[0];
  };
  EXPECT_EQ(value(RT_ACTIVATION_RELU, -2), 0);
  EXPECT_EQ(value(RT_ACTIVATION_RELU, 2), 2);
  EXPECT_TRUE(std::isnan(value(RT_ACTIVATION_RELU, kNaN)));
  EXPECT_NEAR(value(RT_ACTIVATION_GELU, 1), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(value(RT_ACTIVATION_GELU_TANH, 1), 0.8411919906082768, 1e-15);
  EXPECT_NEAR(value(RT_ACTIVATION_TANH, 0.5), 0.46211715726000975, 1e-15);
  EXPECT_NEAR(value(RT_ACTIVATION_SIGMOID, std::log(3.0)), 0.75, 1e-15);
  EXPECT_NEAR(value(RT_ACTIVATION_EXP, 1), 2.718281828459045, 1e-15);
  EXPECT_NEAR(value(RT_ACTIVATION_LOG, 10), 2.302585092994046, 1e-15);
  EXPECT_EQ(value(RT_ACTIVATION_SQRT, 6.25), 2.5);
  EXPECT_EQ(value(RT_ACTIVATION_RECIPROCAL, -8), -0.125);
  EXPECT_NEAR(value(RT_ACTIVATION_SIN, 2), 0.9092974268256817, 1e-15);
  EXPECT_NEAR(value(RT_ACTIVATION_COS, 2), -0.4161468365471424, 1e-15);
  EXPECT_EQ(value(RT_ACTIVATION_FLOOR, -1.5), -2);
}

TEST(KnownAnswer, ArithmeticBroadcasts) {
  const Operation op = operation(RT_OP_SUBTRACT, {{2, 1}, {3}}, {{2, 3}});
  EXPECT_THAT(run1(op, {{10, 20}, {1, 2, 3}}), ElementsAre(9, 8, 7, 19, 18, 17));
  const Operation scalar = operation(RT_OP_DIVIDE, {{2}, {}}, {{2}});
  EXPECT_THAT(run1(scalar, {{6, 9}, {3}}), ElementsAre(2, 3));
}

TEST(KnownAnswer, Reductions) {
  const auto reduce = [](int64_t function, int64_t axes, const Dims& y) {
    return run1(operation(RT_OP_REDUCE, {{2, 3}}, {y},
                          {{RT_ATTR_FUNCTION, function}, {RT_ATTR_AXES, axes}}),
                {{1, 5, 3, -4, -2, -6}});
  };
  EXPECT_THAT(reduce(RT_REDUCE_SUM, 1, {3}), ElementsAre(-3, 3, -3));
  EXPECT_THAT(reduce(RT_REDUCE_MEAN, 2, {2, 1}), ElementsAre(3, -4));
  EXPECT_THAT(reduce(RT_REDUCE_MAX, 2, {2}), ElementsAre(5, -2));
  EXPECT_THAT(reduce(RT_REDUCE_MAX, 3, {}), ElementsAre(5));
  EXPECT_THAT(run1(operation(RT_OP_SQUARE_SUM, {{3}}, {{1}}), {{1, 2, -3}}), ElementsAre(14));
}

TEST(KnownAnswer, Float32SumsAreInDouble) {
  Array x(1001, 1.0);
  x[0] = 1e8;  // the next float32 is larger by 8, so that 1e8 + 1 = 1e8 in float32
  const Operation op = operation(
      RT_OP_REDUCE, {{1001}}, {{1}},
      {{RT_ATTR_FUNCTION, int64_t{RT_REDUCE_SUM}}, {RT_ATTR_AXES, int64_t{1}}}, RT_FLOAT32);
  EXPECT_THAT(run1(op, {x}), ElementsAre(100001000));
  const Operation product =
      operation(RT_OP_MATMUL, {{1, 1001}, {1001, 1}}, {{1, 1}}, {}, RT_FLOAT32);
  EXPECT_THAT(run1(product, {x, Array(1001, 1.0)}), ElementsAre(100001000));
}

TEST(KnownAnswer, ClipScale) {
  const Operation op = operation(RT_OP_CLIP_SCALE, {{1}}, {{1}}, {{RT_ATTR_MAX_NORM, 1.0}});
  EXPECT_DOUBLE_EQ(run1(op, {{25}})[0], 1 / (5 + 1e-6));
  EXPECT_EQ(run1(op, {{0.25}})[0], 1);
}

TEST(KnownAnswer, LossScale) {
  const auto next = [](double max_norm, double sum, const Array& state) {
    return run(operation(RT_OP_LOSS_SCALE, {{1}, {3}}, {{1}, {3}}, {{RT_ATTR_MAX_NORM, max_norm}}),
               {{sum}, state});
  };
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_THAT(next(0, 9, {4, 7, 2}), ElementsAre(Array{0.25}, Array{4, 8, 2}));
  EXPECT_THAT(next(0, 9, {4, 1999, 2}), ElementsAre(Array{0.25}, Array{8, 0, 2}));
  EXPECT_THAT(next(0, 9, {16777216, 1999, 2})[1], ElementsAre(16777216, 0, 2));
  EXPECT_THAT(next(0, infinite, {4, 7, 2}), ElementsAre(Array{0}, Array{2, 0, 3}));
  EXPECT_THAT(next(0, kNaN, {1.0 / 16777216, 7, 2})[1], ElementsAre(1.0 / 16777216, 0, 3));
  EXPECT_DOUBLE_EQ(next(1, 400, {4, 7, 2})[0][0], 0.25 / (5 + 1e-6)) << "a norm of 20 / 4";
}

TEST(KnownAnswer, SoftmaxOfLargeNumbers) {
  EXPECT_THAT(run1(operation(RT_OP_SOFTMAX, {{1, 2}}, {{1, 2}}), {{1000, 1000}}),
              Pointwise(DoubleNear(1e-15), {0.5, 0.5}));
  EXPECT_THAT(run1(operation(RT_OP_LOG_SOFTMAX, {{1, 2}}, {{1, 2}}), {{1000, 0}}),
              ElementsAre(0, -1000));
}

Operation classification(const char* name, const Dims& logits, const std::vector<Dims>& rest,
                         const Dims& output) {
  std::vector<Dims> inputs = {logits};
  inputs.insert(inputs.end(), rest.begin(), rest.end());
  Operation op = operation(name, inputs, {output});
  op.inputs[1].dtype = RT_INT32;
  return op;
}

TEST(KnownAnswer, CrossEntropy) {
  const Operation op = classification(RT_OP_CROSS_ENTROPY, {2, 2}, {{2}, {2}}, {1});
  EXPECT_DOUBLE_EQ(run1(op, {{0, 0, 1000, 0}, {1, 0}, {0.5, 0.5}})[0], 0.5 * std::log(2.0));
}

TEST(KnownAnswer, RowsOfWeightZeroDoNotCountWhateverTheyHold) {
  const Array logits = {0, 0, kNaN, kNaN}, labels = {1, 0}, weight = {0.5, 0};
  EXPECT_DOUBLE_EQ(run1(classification(RT_OP_CROSS_ENTROPY, {2, 2}, {{2}, {2}}, {1}),
                        {logits, labels, weight})[0],
                   0.5 * std::log(2.0));
  EXPECT_THAT(run1(classification(RT_OP_CROSS_ENTROPY_BACKWARD, {2, 2}, {{2}, {2}, {1}}, {2, 2}),
                   {logits, labels, weight, {2}}),
              ElementsAre(0.5, -0.5, 0, 0));
}

TEST(KnownAnswer, CrossEntropyWithGradientIsThreeOperations) {
  const Array logits = {0, 0, kNaN, kNaN, 3, 3}, labels = {1, 0, 0}, weight = {0.5, 0, 0.25};
  const auto run_with = [&](const std::vector<Dims>& outputs) {
    Operation op = operation(RT_OP_CROSS_ENTROPY_WITH_GRADIENT, {{3, 2}, {3}, {3}, {1}}, outputs);
    op.inputs[1].dtype = RT_INT32;
    return run(op, {logits, labels, weight, {2}});
  };
  const auto outputs = run_with({{1}, {3, 2}, {1}});
  EXPECT_DOUBLE_EQ(outputs[0][0], 0.75 * std::log(2.0));
  EXPECT_THAT(outputs[1], ElementsAre(0.5, -0.5, 0, 0, -0.25, 0.25));
  EXPECT_THAT(outputs[2], ElementsAre(1));
  EXPECT_EQ(run_with({{1}, {3, 2}}), (std::vector<Array>{outputs[0], outputs[1]}));
}

TEST(KnownAnswer, CorrectCountTakesTheFirstLargest) {
  const Operation op = classification(RT_OP_CORRECT_COUNT, {4, 2}, {{4}, {4}}, {1});
  // Rows: a tie whose first class is the label, a tie whose second class is, a hit, and a hit of
  // weight 0.
  EXPECT_THAT(run1(op, {{1, 1, 1, 1, 0, 2, 0, 2}, {0, 1, 1, 1}, {1, 1, 1, 0}}), ElementsAre(2));
}

TEST(KnownAnswer, MeanSquaredError) {
  const Operation op = operation(RT_OP_MEAN_SQUARED_ERROR, {{2, 2}, {2, 2}, {2}}, {{1}});
  EXPECT_THAT(run1(op, {{1, 2, 3, 4}, {0, 0, 3, 6}, {0.5, 0.25}}),
              ElementsAre(0.5 * 2.5 + 0.25 * 2));
}

TEST(KnownAnswer, BatchNorm) {
  const Operation op = operation(RT_OP_BATCH_NORM, {{2, 1}, {1}, {1}, {1}, {1}}, {{2, 1}, {1}, {1}},
                                 {{RT_ATTR_EPSILON, 0.0}});
  const auto outputs = run(op, {{1, 3}, {2}, {1}, {10}, {4}});
  EXPECT_THAT(outputs[0], ElementsAre(-1, 3));
  EXPECT_THAT(outputs[1], Pointwise(DoubleNear(1e-15), {9.2}));  // 0.9 * 10 + 0.1 * 2
  EXPECT_THAT(outputs[2], Pointwise(DoubleNear(1e-15), {3.8}));  // 0.9 * 4 + 0.1 * 2, unbiased
}

TEST(KnownAnswer, BatchNormOfOneSampleKeepsTheBiasedVariance) {
  const Operation op = operation(RT_OP_BATCH_NORM, {{1, 1}, {1}, {1}, {1}, {1}}, {{1, 1}, {1}, {1}},
                                 {{RT_ATTR_EPSILON, 1e-5}, {RT_ATTR_MOMENTUM, 0.5}});
  const auto outputs = run(op, {{7}, {2}, {1}, {1}, {4}});
  EXPECT_THAT(outputs[0], ElementsAre(1));
  EXPECT_THAT(outputs[1], ElementsAre(4));
  EXPECT_THAT(outputs[2], ElementsAre(2));
}

TEST(KnownAnswer, BatchNormInference) {
  const Operation op = operation(RT_OP_BATCH_NORM_INFERENCE, {{2, 1}, {1}, {1}, {1}, {1}}, {{2, 1}},
                                 {{RT_ATTR_EPSILON, 0.0}});
  EXPECT_THAT(run1(op, {{1, 3}, {3}, {1}, {1}, {4}}), ElementsAre(1, 4));
}

TEST(KnownAnswer, BatchNormInParts) {
  // Two real rows of [2 positions, 1 channel], and a padded row of NaN between them.
  const Operation statistics = operation(RT_OP_BATCH_NORM_STATISTICS, {{3, 2, 1}, {3}}, {{1, 3}});
  EXPECT_THAT(run1(statistics, {{1, 3, NAN, NAN, 5, 7}, {0.5, 0, 0.5}}), ElementsAre(4, 20, 4));
  EXPECT_THAT(run1(statistics, {{1, 3, 5, 7, 9, 11}, {0, 0, 0}}), ElementsAre(0, 0, 0));
  // The statistics of the same rows from two ranks, and of a third rank without samples.
  const Operation merge = operation(RT_OP_BATCH_NORM_MERGE, {{3, 3}, {1}, {1}}, {{3}, {1}, {1}});
  const auto merged = run(merge, {{2, 2, 2, 9, 9, 0, 6, 2, 2}, {10}, {1}});
  EXPECT_THAT(merged[0], ElementsAre(4, 5, 4));
  EXPECT_THAT(merged[1], Pointwise(DoubleNear(1e-15), {9.4}));  // 0.9 * 10 + 0.1 * 4
  EXPECT_THAT(merged[2], Pointwise(DoubleNear(1e-15), {0.9 + 0.1 * 20 / 3}));
  const Operation apply = operation(RT_OP_BATCH_NORM_APPLY, {{2, 1}, {1}, {1}, {3}}, {{2, 1}},
                                    {{RT_ATTR_EPSILON, 4.0}});
  EXPECT_THAT(run1(apply, {{4, 10}, {2}, {1}, {4, 5, 4}}), ElementsAre(1, 5));
}

TEST(KnownAnswer, BatchNormInPartsWithoutSamples) {
  const Operation merge = operation(RT_OP_BATCH_NORM_MERGE, {{2, 3}, {1}, {1}}, {{3}, {1}, {1}});
  const auto merged = run(merge, {{5, 5, 0, 7, 7, 0}, {0.3}, {0.7}});
  EXPECT_THAT(merged[0], ElementsAre(0, 0, 0));
  EXPECT_THAT(merged[1], ElementsAre(0.3));
  EXPECT_THAT(merged[2], ElementsAre(0.7));
  const Operation backward =
      operation(RT_OP_BATCH_NORM_BACKWARD_APPLY, {{2, 1}, {2, 1}, {1}, {3}, {2}, {2}}, {{2, 1}},
                {{RT_ATTR_EPSILON, 1e-5}});
  EXPECT_THAT(run1(backward, {{0, 0}, {1, 2}, {1}, {0, 0, 0}, {0, 0}, {0, 0}}), ElementsAre(0, 0));
}

TEST(KnownAnswer, LayerNorm) {
  const Operation op =
      operation(RT_OP_LAYER_NORM, {{1, 2}, {2}, {2}}, {{1, 2}}, {{RT_ATTR_EPSILON, 0.0}});
  EXPECT_THAT(run1(op, {{1, 3}, {2, 4}, {1, 1}}), ElementsAre(-1, 5));
}

// Queries of zero give all visible keys the same weight.
TEST(KnownAnswer, AttentionOfEqualScoresIsTheMean) {
  const auto y = [](int64_t causal) {
    return run1(operation(RT_OP_ATTENTION, {{1, 3, 6}}, {{1, 3, 2}},
                          {{RT_ATTR_HEADS, int64_t{2}}, {RT_ATTR_CAUSAL, causal}}),
                {{0, 0, 7, 9, 3, 10, /**/ 0, 0, -5, 1, 5, 20, /**/ 0, 0, 2, 4, 10, 60}});
  };
  EXPECT_THAT(y(0), Pointwise(DoubleNear(1e-14), {6., 30., 6., 30., 6., 30.}));
  EXPECT_THAT(y(1), Pointwise(DoubleNear(1e-14), {3., 10., 4., 15., 6., 30.}));
}

TEST(KnownAnswer, EmbeddingOfAPartOfTheTableGivesZerosForOtherRows) {
  Operation op =
      operation(RT_OP_EMBEDDING, {{4}, {2, 1}}, {{4, 1}}, {{RT_ATTR_FIRST_ROW, int64_t{2}}});
  op.inputs[0].dtype = RT_INT32;
  EXPECT_THAT(run1(op, {{1, 2, 3, 4}, {5, 6}}), ElementsAre(0, 5, 6, 0));
  Operation backward = operation(RT_OP_EMBEDDING_BACKWARD, {{4}, {4, 1}}, {{2, 1}},
                                 {{RT_ATTR_FIRST_ROW, int64_t{2}}});
  backward.inputs[0].dtype = RT_INT32;
  EXPECT_THAT(run1(backward, {{1, 2, 3, 2}, {1, 2, 4, 8}}), ElementsAre(10, 4));
}

TEST(KnownAnswer, EmbeddingBackwardAddsRepeatedRows) {
  Operation op = operation(RT_OP_EMBEDDING_BACKWARD, {{3}, {3, 1}}, {{2, 1}});
  op.inputs[0].dtype = RT_INT32;
  EXPECT_THAT(run1(op, {{1, 1, 1}, {1, 2, 4}}), ElementsAre(0, 7));
}

TEST(KnownAnswer, Movement) {
  const Array x = {1, 2, 3, 4, 5, 6};
  EXPECT_THAT(
      run1(operation(RT_OP_TRANSPOSE, {{2, 3}}, {{3, 2}}, {{RT_ATTR_PERMUTATION, int64_t{0x01}}}),
           {x}),
      ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(
      run1(operation(RT_OP_CONCAT, {{2, 1}, {2, 2}}, {{2, 3}}, {{RT_ATTR_AXIS, int64_t{1}}}),
           {{1, 2}, {3, 4, 5, 6}}),
      ElementsAre(1, 3, 4, 2, 5, 6));
  const Attributes middle = {{RT_ATTR_AXIS, int64_t{1}}, {RT_ATTR_START, int64_t{1}}};
  EXPECT_THAT(run1(operation(RT_OP_SLICE, {{2, 3}}, {{2, 2}}, middle), {x}),
              ElementsAre(2, 3, 5, 6));
  EXPECT_THAT(run1(operation(RT_OP_PAD, {{2, 1}}, {{2, 3}}, middle), {{7, 8}}),
              ElementsAre(0, 7, 0, 0, 8, 0));
  EXPECT_EQ(run1(operation(RT_OP_COPY, {{6}}, {{6}}), {x}), x);
  EXPECT_THAT(run1(operation(RT_OP_FILL, {}, {{3}}, {{RT_ATTR_VALUE, 2.5}}), {}), Each(2.5));
}

TEST(KnownAnswer, CastTruncatesToIntegersAndRoundsToFloat32) {
  Operation op = operation(RT_OP_CAST, {{4}}, {{4}});
  op.outputs[0].dtype = RT_INT32;
  EXPECT_THAT(run1(op, {{1.9, -1.9, 0.5, 7}}), ElementsAre(1, -1, 0, 7));
  op.outputs[0].dtype = RT_FLOAT32;
  EXPECT_THAT(run1(op, {{1 + 0x1p-24, 1 + 3 * 0x1p-24, 0.5, -2}}),  // halfway cases go to even
              ElementsAre(1, 1 + 0x1p-22, 0.5, -2));
  op.inputs[0].dtype = RT_UINT8;
  EXPECT_THAT(run1(op, {{0, 1, 128, 255}}), ElementsAre(0, 1, 128, 255));
}

}  // namespace
}  // namespace backends::reference::testing
