// Compares the gradients of gated activations, rotary positions and root mean square normalisation
// with float64 central differences.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/backends/reference/harness.h"

namespace backends::reference::testing {
namespace {

using plugins::host::Operation;

TEST(GateGradient, GatedActivations) {
  const Dims dims = {3, 7};
  const Array gate = random_array(dims, 1, -3, 3), up = random_array(dims, 2),
              dy = random_array(dims, 3);
  for (const int64_t f : {1, 2, 3, 4, 5, RT_ACTIVATION_SILU}) {
    const Attributes function = {{RT_ATTR_FUNCTION, f}};
    const Operation forward = operation(RT_OP_GATED_ACTIVATION, {dims, dims}, {dims}, function);
    const std::vector<Array> gradients =
        run(operation(RT_OP_GATED_ACTIVATION_BACKWARD, {dims, dims, dims}, {dims, dims}, function),
            {dy, gate, up});
    const std::string name = "function " + std::to_string(f);
    expect_gradient(
        [&](const Array& x) {
          return run1(forward, {x, up});
        },
        gate, dy, gradients[0], name + " dgate");
    expect_gradient(
        [&](const Array& x) {
          return run1(forward, {gate, x});
        },
        up, dy, gradients[1], name + " dup");
  }
}

// By hand: silu(1) = 1 / (1 + 1/e).
TEST(GateGradient, SwiGluOfOne) {
  const Array y = run1(operation(RT_OP_GATED_ACTIVATION, {{2}, {2}}, {{2}},
                                 {{RT_ATTR_FUNCTION, int64_t{RT_ACTIVATION_SILU}}}),
                       {{1, 0}, {3, 5}});
  EXPECT_NEAR(y[0], 3 / (1 + std::exp(-1.0)), 1e-15);
  EXPECT_EQ(y[1], 0);
}

TEST(GateGradient, RotaryIsTurnedBack) {
  const Dims x_dims = {2, 3, 2 * 5}, turns_dims = {3, 4};  // the fifth column of a head is copied
  const Array x = random_array(x_dims, 1), turns = random_array(turns_dims, 2),
              dy = random_array(x_dims, 3);
  const auto rotary = [&](int64_t inverse) {
    return operation(RT_OP_ROTARY, {x_dims, turns_dims}, {x_dims},
                     {{RT_ATTR_HEADS, int64_t{2}}, {RT_ATTR_INVERSE, inverse}});
  };
  for (const int64_t inverse : {0, 1}) {
    expect_gradient(
        [&](const Array& v) {
          return run1(rotary(inverse), {v, turns});
        },
        x, dy, run1(rotary(1 - inverse), {dy, turns}), "dx");
  }
}

// By hand: a quarter turn makes (1, 2) of (x, y) = (1, 2) into (-2, 1); place 0 does not turn.
TEST(GateGradient, RotaryTurnsByAQuarter) {
  const Array y =
      run1(operation(RT_OP_ROTARY, {{1, 2, 3}, {2, 2}}, {{1, 2, 3}}, {{RT_ATTR_HEADS, int64_t{1}}}),
           {{1, 2, 9, 1, 2, 9}, {1, 0, 0, 1}});
  EXPECT_EQ(y, (Array{1, 2, 9, -2, 1, 9}));
}

TEST(GateGradient, RmsNorm) {
  for (const Dims& dims : {Dims{3, 2, 5}, Dims{4, 7}, Dims{3, 1}}) {
    const Dims d = {dims.back()};
    const Attributes epsilon = {{RT_ATTR_EPSILON, 1e-3}};
    const Array x = random_array(dims, 1), gamma = random_array(d, 2), dy = random_array(dims, 3);
    const Operation forward = operation(RT_OP_RMS_NORM, {dims, d}, {dims}, epsilon);
    Saved saved;
    run(forward, {x, gamma}, &saved);
    const std::vector<Array> gradients =
        run(operation(RT_OP_RMS_NORM_BACKWARD, {dims, dims, d}, {dims, d}, epsilon), {dy, x, gamma},
            &saved);
    expect_gradient(
        [&](const Array& v) {
          return run1(forward, {v, gamma});
        },
        x, dy, gradients[0], "dx");
    expect_gradient(
        [&](const Array& v) {
          return run1(forward, {x, v});
        },
        gamma, dy, gradients[1], "dgamma");
  }
}

}  // namespace
}  // namespace backends::reference::testing
