// Gradients of matmul, convolutions and poolings against float64 central differences.
#include <gtest/gtest.h>

#include "tests/backends/reference/harness.h"

namespace backends::reference::testing {
namespace {

using plugins::host::Operation;

Attributes transposes(bool a, bool b) {
  return {{RT_ATTR_TRANSPOSE_A, int64_t{a}}, {RT_ATTR_TRANSPOSE_B, int64_t{b}}};
}

// Checks the gradients of c = op(a) op(b), which are products of dc with the other operand.
void check_matmul(const Dims& leading, bool ta, bool tb) {
  const auto with = [&](int64_t rows, int64_t columns) {
    Dims dims = leading;
    dims.insert(dims.end(), {rows, columns});
    return dims;
  };
  constexpr int64_t kM = 5, kN = 3, kK = 4;
  const Dims a_dims = ta ? with(kK, kM) : with(kM, kK), b_dims = tb ? with(kN, kK) : with(kK, kN);
  const Dims c_dims = with(kM, kN);
  const Array a = random_array(a_dims, 1), b = random_array(b_dims, 2),
              dc = random_array(c_dims, 3);
  const Operation forward = operation(RT_OP_MATMUL, {a_dims, b_dims}, {c_dims}, transposes(ta, tb));
  const Array da =
      ta ? run1(operation(RT_OP_MATMUL, {b_dims, c_dims}, {a_dims}, transposes(tb, true)), {b, dc})
         : run1(operation(RT_OP_MATMUL, {c_dims, b_dims}, {a_dims}, transposes(false, !tb)),
                {dc, b});
  const Array db =
      tb ? run1(operation(RT_OP_MATMUL, {c_dims, a_dims}, {b_dims}, transposes(true, ta)), {dc, a})
         : run1(operation(RT_OP_MATMUL, {a_dims, c_dims}, {b_dims}, transposes(!ta, false)),
                {a, dc});
  expect_gradient([&](const Array& x) { return run1(forward, {x, b}); }, a, dc, da, "da");
  expect_gradient([&](const Array& x) { return run1(forward, {a, x}); }, b, dc, db, "db");
}

TEST(Gradient, Matmul) {
  for (const Dims& leading : {Dims{}, Dims{2, 3}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "batch dims " << leading.size() << ta << tb);
        check_matmul(leading, ta, tb);
      }
    }
  }
}

struct Convolution {
  Dims x, w, y;
  Attributes attributes;
};

std::vector<Convolution> convolutions() {
  return {
      {{2, 5, 6, 3}, {4, 3, 3, 3}, {2, 3, 4, 4}, {}},
      {{1, 7, 5, 2},
       {3, 3, 2, 2},
       {1, 4, 3, 3},
       {{RT_ATTR_STRIDE_H, int64_t{2}},
        {RT_ATTR_STRIDE_W, int64_t{2}},
        {RT_ATTR_PAD_TOP, int64_t{1}},
        {RT_ATTR_PAD_BOTTOM, int64_t{2}},
        {RT_ATTR_PAD_RIGHT, int64_t{1}}}},
      {{2, 8, 7, 1},
       {2, 3, 2, 1},
       {2, 5, 6, 2},
       {{RT_ATTR_DILATION_H, int64_t{2}},
        {RT_ATTR_DILATION_W, int64_t{3}},
        {RT_ATTR_PAD_TOP, int64_t{1}},
        {RT_ATTR_PAD_LEFT, int64_t{2}}}},
      {{2, 4, 4, 6}, {4, 3, 3, 3}, {2, 2, 2, 4}, {{RT_ATTR_GROUPS, int64_t{2}}}},
      {{1, 5, 5, 3},
       {3, 3, 3, 1},
       {1, 3, 3, 3},
       {{RT_ATTR_GROUPS, int64_t{3}},
        {RT_ATTR_STRIDE_H, int64_t{2}},
        {RT_ATTR_STRIDE_W, int64_t{2}},
        {RT_ATTR_PAD_TOP, int64_t{1}},
        {RT_ATTR_PAD_BOTTOM, int64_t{1}},
        {RT_ATTR_PAD_LEFT, int64_t{1}},
        {RT_ATTR_PAD_RIGHT, int64_t{1}}}},
  };
}

TEST(Gradient, Convolution) {
  for (const Convolution& c : convolutions()) {
    const Array x = random_array(c.x, 1), w = random_array(c.w, 2), dy = random_array(c.y, 3);
    const Operation forward = operation(RT_OP_CONV2D, {c.x, c.w}, {c.y}, c.attributes);
    const Array dx =
        run1(operation(RT_OP_CONV2D_BACKWARD_DATA, {c.y, c.w}, {c.x}, c.attributes), {dy, w});
    const Array dw =
        run1(operation(RT_OP_CONV2D_BACKWARD_WEIGHTS, {c.x, c.y}, {c.w}, c.attributes), {x, dy});
    expect_gradient([&](const Array& v) { return run1(forward, {v, w}); }, x, dy, dx, "dx");
    expect_gradient([&](const Array& v) { return run1(forward, {x, v}); }, w, dy, dw, "dw");
  }
}

TEST(Gradient, ConvolutionBias) {
  for (const Convolution& c : convolutions()) {
    const Dims o = {c.y.back()};
    const Array x = random_array(c.x, 1), w = random_array(c.w, 2), bias = random_array(o, 4);
    const Array dy = random_array(c.y, 3);
    Operation forward = operation(RT_OP_CONV2D, {c.x, c.w, o}, {c.y}, c.attributes);
    forward.post_ops = {{RT_POST_BIAS, 0, 2}};
    const auto gradients =
        run(operation(RT_OP_CONV2D_BACKWARD_WEIGHTS, {c.x, c.y}, {c.w, o}, c.attributes), {x, dy});
    expect_gradient(
        [&](const Array& v) {
          return run1(forward, {x, w, v});
        },
        bias, dy, gradients[1], "db");
    expect_gradient(
        [&](const Array& v) {
          return run1(forward, {x, v, bias});
        },
        w, dy, gradients[0], "dw beside db");
  }
}

struct Pooling {
  Dims x, y;
  Attributes attributes;
};

std::vector<Pooling> poolings() {
  const auto sizes = [](int64_t kh, int64_t kw, int64_t sh, int64_t sw) {
    return Attributes{{RT_ATTR_KERNEL_H, kh},
                      {RT_ATTR_KERNEL_W, kw},
                      {RT_ATTR_STRIDE_H, sh},
                      {RT_ATTR_STRIDE_W, sw}};
  };
  Attributes padded = sizes(3, 2, 2, 1);
  padded.insert(padded.end(), {{RT_ATTR_PAD_TOP, int64_t{2}}, {RT_ATTR_PAD_RIGHT, int64_t{1}}});
  return {{{2, 5, 7, 3}, {2, 2, 3, 3}, sizes(2, 2, 2, 2)},
          {{1, 5, 4, 2}, {1, 3, 4, 2}, padded},
          {{2, 4, 4, 1}, {2, 2, 2, 1}, sizes(3, 3, 1, 1)}};
}

TEST(Gradient, MaxPool) {
  for (const Pooling& p : poolings()) {
    const Array x = random_array(p.x, 1), dy = random_array(p.y, 2);
    const Operation forward = operation(RT_OP_MAX_POOL2D, {p.x}, {p.y}, p.attributes);
    Saved saved;
    run(forward, {x}, &saved);
    const Array dx =
        run(operation(RT_OP_MAX_POOL2D_BACKWARD, {p.y}, {p.x}, p.attributes), {dy}, &saved)[0];
    expect_gradient([&](const Array& v) { return run1(forward, {v}); }, x, dy, dx, "dx");
  }
}

TEST(Gradient, AveragePool) {
  for (Pooling p : poolings()) {
    for (const int64_t include : {0, 1}) {
      p.attributes.push_back({RT_ATTR_COUNT_INCLUDE_PAD, include});
      const Array x = random_array(p.x, 1), dy = random_array(p.y, 2);
      const Operation forward = operation(RT_OP_AVG_POOL2D, {p.x}, {p.y}, p.attributes);
      const Array dx = run1(operation(RT_OP_AVG_POOL2D_BACKWARD, {p.y}, {p.x}, p.attributes), {dy});
      expect_gradient([&](const Array& v) { return run1(forward, {v}); }, x, dy, dx, "dx");
      p.attributes.pop_back();
    }
  }
}

// The pooling leaves out a row or a column of some of the convolutions' results.
TEST(Gradient, ConvolutionPooling) {
  for (const Convolution& c : convolutions()) {
    const Dims o = {c.y.back()}, y = {c.y[0], c.y[1] / 2, c.y[2] / 2, c.y[3]};
    const Array x = random_array(c.x, 1), w = random_array(c.w, 2), bias = random_array(o, 4);
    const Array dy = random_array(y, 3);
    for (const int64_t average : {0, 1}) {
      for (int64_t function = 0; function <= RT_ACTIVATION_SIGMOID; ++function) {
        SCOPED_TRACE(::testing::Message() << "average " << average << " function " << function);
        Attributes attributes = c.attributes;
        attributes.insert(attributes.end(), {{RT_ATTR_KERNEL_H, int64_t{2}},
                                             {RT_ATTR_KERNEL_W, int64_t{2}},
                                             {RT_ATTR_AVERAGE, average},
                                             {RT_ATTR_FUNCTION, function}});
        const Operation forward = operation(RT_OP_CONV2D_POOL2D, {c.x, c.w, o}, {y}, attributes);
        const auto value = [&](const Array& weights, const Array& biases) {
          Saved saved;
          return run(forward, {x, weights, biases}, &saved)[0];
        };
        Saved saved;
        run(forward, {x, w, bias}, &saved);
        const auto gradients =
            run(operation(RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS, {c.x, y}, {c.w, o}, attributes),
                {x, dy}, &saved);
        expect_gradient([&](const Array& v) { return value(v, bias); }, w, dy, gradients[0], "dw");
        expect_gradient([&](const Array& v) { return value(w, v); }, bias, dy, gradients[1], "db");
      }
    }
  }
}

TEST(Gradient, GlobalAveragePool) {
  const Dims x_dims = {2, 3, 5, 4}, y_dims = {2, 4};
  const Array x = random_array(x_dims, 1), dy = random_array(y_dims, 2);
  const Operation forward = operation(RT_OP_GLOBAL_AVG_POOL, {x_dims}, {y_dims});
  const Array dx = run1(operation(RT_OP_GLOBAL_AVG_POOL_BACKWARD, {y_dims}, {x_dims}), {dy});
  expect_gradient([&](const Array& v) { return run1(forward, {v}); }, x, dy, dx, "dx");
}

}  // namespace
}  // namespace backends::reference::testing
