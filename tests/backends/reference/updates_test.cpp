// Compares the optimizers with their formulas, element by element.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/backends/reference/harness.h"

namespace backends::reference::testing {
namespace {

using plugins::host::Operation;

const Dims kDims = {3, 4};
const Dims kOne = {1};
constexpr double kLr = 0.1, kScale = 0.5, kDecay = 0.01;

struct State {
  Array param = random_array(kDims, 1), grad = random_array(kDims, 2);
  Array first = random_array(kDims, 3), second = random_array(kDims, 4, 0, 1);
};

TEST(Sgd, WithoutMomentum) {
  for (const double decay : {0.0, kDecay}) {
    const State s;
    const Operation op =
        operation(RT_OP_SGD, {kDims, kDims, kOne, kOne}, {kDims}, {{RT_ATTR_WEIGHT_DECAY, decay}});
    const Array param = run1(op, {s.param, s.grad, {kLr}, {kScale}});
    for (size_t i = 0; i < param.size(); ++i) {
      const double g = kScale * s.grad[i] + decay * s.param[i];
      EXPECT_DOUBLE_EQ(param[i], s.param[i] - kLr * g);
    }
  }
}

TEST(Sgd, WithMomentumPlainAndNesterov) {
  constexpr double kMomentum = 0.9;
  for (const int64_t nesterov : {0, 1}) {
    const State s;
    const Operation op = operation(RT_OP_SGD, {kDims, kDims, kOne, kOne, kDims}, {kDims, kDims},
                                   {{RT_ATTR_MOMENTUM, kMomentum},
                                    {RT_ATTR_NESTEROV, nesterov},
                                    {RT_ATTR_WEIGHT_DECAY, kDecay}});
    const auto outputs = run(op, {s.param, s.grad, {kLr}, {kScale}, s.first});
    for (size_t i = 0; i < s.param.size(); ++i) {
      const double g = kScale * s.grad[i] + kDecay * s.param[i];
      const double velocity = kMomentum * s.first[i] + g;
      const double direction = nesterov ? g + kMomentum * velocity : velocity;
      EXPECT_DOUBLE_EQ(outputs[1][i], velocity);
      EXPECT_DOUBLE_EQ(outputs[0][i], s.param[i] - kLr * direction);
    }
  }
}

TEST(AdamW, FollowsItsFormulaOverSteps) {
  constexpr double kBeta1 = 0.9, kBeta2 = 0.99, kEpsilon = 1e-8;
  Operation op =
      operation(RT_OP_ADAMW, {kDims, kDims, kOne, kOne, kDims, kDims, kOne}, {kDims, kDims, kDims},
                {{RT_ATTR_BETA1, kBeta1},
                 {RT_ATTR_BETA2, kBeta2},
                 {RT_ATTR_EPSILON, kEpsilon},
                 {RT_ATTR_WEIGHT_DECAY, kDecay}});
  op.inputs[6].dtype = RT_INT64;
  State s;
  s.first.assign(s.first.size(), 0.0);
  s.second.assign(s.second.size(), 0.0);
  for (int step = 1; step <= 3; ++step) {
    const auto outputs =
        run(op, {s.param, s.grad, {kLr}, {kScale}, s.first, s.second, {static_cast<double>(step)}});
    for (size_t i = 0; i < s.param.size(); ++i) {
      const double g = kScale * s.grad[i];
      s.param[i] -= kLr * kDecay * s.param[i];
      s.first[i] = kBeta1 * s.first[i] + (1 - kBeta1) * g;
      s.second[i] = kBeta2 * s.second[i] + (1 - kBeta2) * g * g;
      const double m = s.first[i] / (1 - std::pow(kBeta1, step));
      const double v = s.second[i] / (1 - std::pow(kBeta2, step));
      s.param[i] -= kLr * m / (std::sqrt(v) + kEpsilon);
      EXPECT_NEAR(outputs[0][i], s.param[i], 1e-15) << step;
      EXPECT_NEAR(outputs[1][i], s.first[i], 1e-15) << step;
      EXPECT_NEAR(outputs[2][i], s.second[i], 1e-15) << step;
    }
  }
}

// The first step of AdamW moves every element by lr against the sign of its gradient.
TEST(AdamW, FirstStepIsTheLearningRate) {
  Operation op = operation(RT_OP_ADAMW, {{2}, {2}, kOne, kOne, {2}, {2}, kOne}, {{2}, {2}, {2}},
                           {{RT_ATTR_BETA1, 0.9}, {RT_ATTR_BETA2, 0.999}, {RT_ATTR_EPSILON, 0.0}});
  op.inputs[6].dtype = RT_INT64;
  const auto outputs = run(op, {{1, 1}, {0.3, -5}, {0.01}, {1}, {0, 0}, {0, 0}, {1}});
  EXPECT_NEAR(outputs[0][0], 0.99, 1e-14);
  EXPECT_NEAR(outputs[0][1], 1.01, 1e-14);
}

}  // namespace
}  // namespace backends::reference::testing
