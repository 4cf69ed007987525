// Tests the table of plugins/operations.md that defines the results for NaN and infinities.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/backends/reference/harness.h"

namespace backends::reference::testing {
namespace {

using plugins::host::Operation;
using ::testing::ElementsAre;
using ::testing::IsNan;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Operation pooling(const char* name, const Dims& from, const Dims& to) {
  return operation(name, {from}, {to},
                   {{RT_ATTR_KERNEL_H, int64_t{2}},
                    {RT_ATTR_KERNEL_W, int64_t{2}},
                    {RT_ATTR_STRIDE_H, int64_t{2}},
                    {RT_ATTR_STRIDE_W, int64_t{2}}});
}

// torch.nn.functional.max_pool2d of [[1, nan], [5, 2]] is nan; of two NaN the last one wins.
TEST(NotFinite, MaxPoolTakesANaNWhereverItStands) {
  const Dims x = {1, 2, 2, 1}, y = {1, 1, 1, 1};
  for (size_t at = 0; at < 4; ++at) {
    Array window = {1, 4, 5, 2}, gradient(4, 0.0);
    window[at] = kNaN;
    gradient[at] = 3;
    Saved saved;
    EXPECT_THAT(run(pooling(RT_OP_MAX_POOL2D, x, y), {window}, &saved)[0], ElementsAre(IsNan()))
        << at;
    EXPECT_EQ(run(pooling(RT_OP_MAX_POOL2D_BACKWARD, y, x), {{3}}, &saved)[0], gradient) << at;
  }
  Saved saved;
  run(pooling(RT_OP_MAX_POOL2D, x, y), {{kNaN, 1, kNaN, 2}}, &saved);
  EXPECT_THAT(run(pooling(RT_OP_MAX_POOL2D_BACKWARD, y, x), {{3}}, &saved)[0],
              ElementsAre(0, 0, 3, 0));
}

// A relu keeps a NaN and lets its gradient through.
TEST(NotFinite, ConvolutionPoolingTakesTheLastNaN) {
  const std::vector<::plugins::host::Attribute> attributes = {
      {RT_ATTR_KERNEL_H, int64_t{2}},
      {RT_ATTR_KERNEL_W, int64_t{2}},
      {RT_ATTR_AVERAGE, int64_t{0}},
      {RT_ATTR_FUNCTION, int64_t{RT_ACTIVATION_RELU}}};
  const std::vector<Dims> in = {{1, 2, 2, 1}, {1, 1, 1, 1}, {1}}, out = {{1, 1, 1, 1}};
  Saved saved;
  EXPECT_THAT(run(operation(RT_OP_CONV2D_POOL2D, in, out, attributes),
                  {{kNaN, 9, kNaN, 2}, {1}, {0}}, &saved)[0],
              ElementsAre(IsNan()));
  // The images of the backward operation are others here, which shows whose gradient it is.
  EXPECT_THAT(run(operation(RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS, {in[0], out[0]}, {in[1], in[2]},
                            attributes),
                  {{2, 3, 5, 7}, {10}}, &saved),
              ElementsAre(ElementsAre(50), ElementsAre(10)));
}

TEST(NotFinite, ReduceMaxTakesANaNWhereverItStands) {
  const Operation op =
      operation(RT_OP_REDUCE, {{3}}, {{1}},
                {{RT_ATTR_FUNCTION, int64_t{RT_REDUCE_MAX}}, {RT_ATTR_AXES, int64_t{1}}});
  for (const Array& x : {Array{kNaN, 1, 2}, Array{1, kNaN, 2}, Array{1, 2, kNaN}})
    EXPECT_THAT(run1(op, {x}), ElementsAre(IsNan()));
}

// torch.clamp(max_norm / (norm + 1e-6), max=1) keeps NaN.
TEST(NotFinite, ANormThatIsNotANumberGivesNoHealthyScale) {
  const Operation op = operation(RT_OP_CLIP_SCALE, {{1}}, {{1}}, {{RT_ATTR_MAX_NORM, 1.0}});
  EXPECT_THAT(run1(op, {{kNaN}}), ElementsAre(IsNan()));
  EXPECT_THAT(run1(op, {{kInfinity}}), ElementsAre(0));
}

// torch.threshold_backward(dy, y, 0): 0 where y <= 0, else dy.
TEST(NotFinite, ReluBackwardIsAChoice) {
  const Operation op = operation(RT_OP_ACTIVATION_BACKWARD, {{4}, {4}}, {{4}},
                                 {{RT_ATTR_FUNCTION, int64_t{RT_ACTIVATION_RELU}}});
  EXPECT_THAT(run1(op, {{kNaN, kInfinity, 3, 4}, {0, 1, kNaN, 1}}),
              ElementsAre(0, kInfinity, 3, 4));
}

TEST(NotFinite, GeluTanhHasADerivativeFarOut) {
  const Operation op = operation(RT_OP_ACTIVATION_BACKWARD, {{3}, {3}}, {{3}},
                                 {{RT_ATTR_FUNCTION, int64_t{RT_ACTIVATION_GELU_TANH}}});
  EXPECT_THAT(run1(op, {{2, 2, 2}, {1e200, -1e200, kInfinity}}), ElementsAre(2, 0, IsNan()));
}

TEST(NotFinite, FunctionsAreThoseOfIeee) {
  const auto values = [](int64_t function) {
    return run1(operation(RT_OP_ACTIVATION, {{6}}, {{6}}, {{RT_ATTR_FUNCTION, function}}),
                {{kNaN, kInfinity, -kInfinity, 0.0, -0.0, -4.0}});
  };
  EXPECT_THAT(values(RT_ACTIVATION_EXP), ElementsAre(IsNan(), kInfinity, 0, 1, 1, std::exp(-4.0)));
  EXPECT_THAT(values(RT_ACTIVATION_LOG),
              ElementsAre(IsNan(), kInfinity, IsNan(), -kInfinity, -kInfinity, IsNan()));
  EXPECT_THAT(values(RT_ACTIVATION_SQRT), ElementsAre(IsNan(), kInfinity, IsNan(), 0, 0, IsNan()));
  EXPECT_THAT(values(RT_ACTIVATION_RECIPROCAL),
              ElementsAre(IsNan(), 0, 0, kInfinity, -kInfinity, -0.25));
  EXPECT_THAT(values(RT_ACTIVATION_SIN),
              ElementsAre(IsNan(), IsNan(), IsNan(), 0, 0, std::sin(-4.0)));
  EXPECT_THAT(values(RT_ACTIVATION_FLOOR), ElementsAre(IsNan(), kInfinity, -kInfinity, 0, 0, -4));
}

// 1 + erf and 1 + tanh lose all digits here. P(X <= -9) of the normal distribution is
// 1.128588405953841e-19; (1 + tanh(z)) / 2 = 1 / (1 + exp(-2 z)).
TEST(NotFinite, GelusKeepTheirDigitsWhereTheyAreSmall) {
  const auto value = [](int64_t function, double x) {
    return run1(operation(RT_OP_ACTIVATION, {{1}}, {{1}}, {{RT_ATTR_FUNCTION, function}}),
                {{x}})[0];
  };
  EXPECT_NEAR(value(RT_ACTIVATION_GELU, -9) / (-9 * 1.128588405953841e-19), 1, 1e-13);
  const double z = std::sqrt(2 / std::acos(-1.0)) * (-9 - 0.044715 * 729);
  EXPECT_NEAR(value(RT_ACTIVATION_GELU_TANH, -9) / (-9 * std::exp(2 * z)), 1, 1e-12);
}

// torch.optim.SGD skips a weight decay of 0, with and without nesterov, so an infinite parameter
// stays infinite.
TEST(NotFinite, SgdMultipliesAnInfiniteParameterOnlyWithADecay) {
  for (const int64_t nesterov : {0, 1}) {
    const auto update = [&](double decay) {
      return run(operation(RT_OP_SGD, {{1}, {1}, {1}, {1}, {1}}, {{1}, {1}},
                           {{RT_ATTR_MOMENTUM, 0.5},
                            {RT_ATTR_NESTEROV, nesterov},
                            {RT_ATTR_WEIGHT_DECAY, decay}}),
                 {{kInfinity}, {2}, {0.1}, {1}, {4}});
    };
    EXPECT_THAT(update(0.0)[0], ElementsAre(kInfinity));
    EXPECT_THAT(update(0.0)[1], ElementsAre(4));  // 0.5 * 4 + 2
    EXPECT_THAT(update(0.1)[0], ElementsAre(IsNan()));
    EXPECT_THAT(update(0.1)[1], ElementsAre(kInfinity));
  }
}

// torch.optim.AdamW: param.mul_(1 - lr * weight_decay)
TEST(NotFinite, AdamWDecaysAnInfiniteParameterToItself) {
  for (const double decay : {0.0, 0.1}) {
    Operation op = operation(RT_OP_ADAMW, {{1}, {1}, {1}, {1}, {1}, {1}, {1}}, {{1}, {1}, {1}},
                             {{RT_ATTR_BETA1, 0.9},
                              {RT_ATTR_BETA2, 0.99},
                              {RT_ATTR_EPSILON, 1e-8},
                              {RT_ATTR_WEIGHT_DECAY, decay}});
    op.inputs[6].dtype = RT_INT64;
    EXPECT_THAT(run(op, {{kInfinity}, {2}, {0.1}, {1}, {0}, {0}, {1}})[0], ElementsAre(kInfinity));
  }
}

Operation classification(const char* name, const std::vector<Dims>& inputs,
                         const std::vector<Dims>& outputs) {
  Operation op = operation(name, inputs, outputs, {});
  op.inputs[1].dtype = RT_INT32;
  return op;
}

// torch.argmax treats NaN as the largest number.
TEST(NotFinite, CorrectCountTakesTheFirstNaN) {
  const Operation op = classification(RT_OP_CORRECT_COUNT, {{3, 3}, {3}, {3}}, {{1}});
  EXPECT_THAT(run1(op, {{1, kNaN, kNaN, 9, 1, kNaN, kNaN, 9, 1}, {1, 2, 0}, {1, 1, 1}}),
              ElementsAre(3));
}

TEST(NotFinite, APartOfNothingButMinusInfinityIsNothingBesideOthers) {
  const Operation statistics =
      classification(RT_OP_CROSS_ENTROPY_STATISTICS, {{1, 2}, {1}}, {{1, 1, 4}});
  const Array nothing = run1(statistics, {{-kInfinity, -kInfinity}, {7}});
  EXPECT_THAT(nothing, ElementsAre(-kInfinity, 0, 0, 0));
  const Operation merge =
      operation(RT_OP_CROSS_ENTROPY_MERGE, {{2, 1, 4}, {1}}, {{1}, {1, 2}, {1}});
  // The other rank holds two classes of logit 2, of which the second is the label.
  Array parts = nothing;
  parts.insert(parts.end(), {2, 2, 2, 0});
  EXPECT_DOUBLE_EQ(run(merge, {parts, {1}})[0][0], std::log(2.0));
}

TEST(NotFinite, AMergeKeepsANaNOfAnyPart) {
  const Operation merge =
      operation(RT_OP_CROSS_ENTROPY_MERGE, {{2, 1, 4}, {1}}, {{1}, {1, 2}, {1}});
  for (const Array& parts :
       {Array{kNaN, kNaN, 0, 0, 2, 2, 2, 1}, Array{2, 2, 2, 1, kNaN, kNaN, 0, 0}}) {
    const auto outputs = run(merge, {parts, {1}});
    EXPECT_THAT(outputs[0], ElementsAre(IsNan()));
    EXPECT_THAT(outputs[1], ElementsAre(IsNan(), IsNan()));
    EXPECT_THAT(outputs[2], ElementsAre(0));
  }
}

}  // namespace
}  // namespace backends::reference::testing
