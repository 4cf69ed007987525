// Compares the gradients of all operations except products and windows with float64 central
// differences.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/backends/reference/harness.h"

namespace backends::reference::testing {
namespace {

using plugins::host::make_tensor_desc;
using plugins::host::Operation;

bool reads_output(int64_t function) {
  return function != RT_ACTIVATION_GELU && function != RT_ACTIVATION_GELU_TANH;
}

TEST(Gradient, Activations) {
  const Dims dims = {3, 7};
  const Array x = random_array(dims, 1, -3, 3), dy = random_array(dims, 2);
  for (int64_t f = RT_ACTIVATION_RELU; f <= RT_ACTIVATION_SIGMOID; ++f) {
    const Attributes function = {{RT_ATTR_FUNCTION, f}};
    const Operation forward = operation(RT_OP_ACTIVATION, {dims}, {dims}, function);
    const Array s = reads_output(f) ? run1(forward, {x}) : x;
    const Array dx =
        run1(operation(RT_OP_ACTIVATION_BACKWARD, {dims, dims}, {dims}, function), {dy, s});
    expect_gradient([&](const Array& v) { return run1(forward, {v}); }, x, dy, dx,
                    "function " + std::to_string(f));
  }
}

// The post-operation applies activation_backward to the result of the operation.
TEST(Gradient, ActivationBackwardAsPostOperation) {
  const Dims dims = {3, 5};
  const Array a = random_array(dims, 1), b = random_array(dims, 2), s = random_array(dims, 3, 0, 1);
  for (int32_t f = RT_ACTIVATION_RELU; f <= RT_ACTIVATION_SIGMOID; ++f) {
    Operation fused = operation(RT_OP_ADD, {dims, dims, dims}, {dims});
    fused.post_ops = {{RT_POST_ACTIVATION_BACKWARD, f, 2}};
    const Array sum = run1(operation(RT_OP_ADD, {dims, dims}, {dims}), {a, b});
    const Operation separate = operation(RT_OP_ACTIVATION_BACKWARD, {dims, dims}, {dims},
                                         {{RT_ATTR_FUNCTION, int64_t{f}}});
    EXPECT_EQ(run1(fused, {a, b, s}), run1(separate, {sum, s}));
  }
}

struct Broadcast {
  Dims a, b, c;
  int64_t a_axes, b_axes;  // the axes of c along which the operand repeats
};

// The sum over the axes along which an operand was repeated.
Array reduced(const Array& gradient, const Dims& from, const Dims& to, int64_t axes) {
  return run1(operation(RT_OP_REDUCE, {from}, {to},
                        {{RT_ATTR_FUNCTION, int64_t{RT_REDUCE_SUM}}, {RT_ATTR_AXES, axes}}),
              {gradient});
}

TEST(Gradient, ArithmeticWithBroadcasting) {
  const std::vector<Broadcast> list = {{{2, 3}, {2, 3}, {2, 3}, 0, 0},
                                       {{2, 3, 4}, {4}, {2, 3, 4}, 0, 3},
                                       {{3, 1}, {1, 4}, {3, 4}, 2, 1}};
  for (const Broadcast& l : list) {
    const Array a = random_array(l.a, 1), b = random_array(l.b, 2, 0.5, 2),
                dc = random_array(l.c, 3);
    const auto with = [&](const char* op, const Array& x, const Array& y, const Dims& y_dims) {
      return run1(operation(op, {l.c, y_dims}, {l.c}), {x, y});
    };
    const Array minus = run1(operation(RT_OP_SCALE, {l.c}, {l.c}, {{RT_ATTR_ALPHA, -1.0}}), {dc});
    struct Row {
      const char* op;
      Array da, db;
    };
    const Array over_b = with(RT_OP_DIVIDE, dc, b, l.b);
    const Array quotient = with(RT_OP_MULTIPLY, with(RT_OP_DIVIDE, minus, b, l.b), a, l.a);
    const std::vector<Row> rows = {
        {RT_OP_ADD, dc, dc},
        {RT_OP_SUBTRACT, dc, minus},
        {RT_OP_MULTIPLY, with(RT_OP_MULTIPLY, dc, b, l.b), with(RT_OP_MULTIPLY, dc, a, l.a)},
        {RT_OP_DIVIDE, over_b, with(RT_OP_DIVIDE, quotient, b, l.b)}};
    for (const Row& row : rows) {
      const Operation forward = operation(row.op, {l.a, l.b}, {l.c});
      expect_gradient(
          [&](const Array& v) {
            return run1(forward, {v, b});
          },
          a, dc, reduced(row.da, l.c, l.a, l.a_axes), std::string(row.op) + " da");
      expect_gradient(
          [&](const Array& v) {
            return run1(forward, {a, v});
          },
          b, dc, reduced(row.db, l.c, l.b, l.b_axes), std::string(row.op) + " db");
    }
  }
}

TEST(Gradient, Scale) {
  const Dims dims = {7};
  const Array x = random_array(dims, 1), dy = random_array(dims, 2);
  const Operation forward =
      operation(RT_OP_SCALE, {dims}, {dims}, {{RT_ATTR_ALPHA, -1.5}, {RT_ATTR_BETA, 0.25}});
  const Array dx = run1(operation(RT_OP_SCALE, {dims}, {dims}, {{RT_ATTR_ALPHA, -1.5}}), {dy});
  expect_gradient([&](const Array& v) { return run1(forward, {v}); }, x, dy, dx, "dx");
}

TEST(Gradient, SumAndMean) {
  const Dims x_dims = {3, 4, 2}, y_dims = {3, 1, 2};
  const Array x = random_array(x_dims, 1), dy = random_array(y_dims, 2);
  for (const int64_t f : {RT_REDUCE_SUM, RT_REDUCE_MEAN}) {
    const Operation forward = operation(RT_OP_REDUCE, {x_dims}, {y_dims},
                                        {{RT_ATTR_FUNCTION, f}, {RT_ATTR_AXES, int64_t{2}}});
    const Array zeros(static_cast<size_t>(count(x_dims)), 0.0);
    const Array spread = run1(operation(RT_OP_ADD, {x_dims, y_dims}, {x_dims}), {zeros, dy});
    const double factor = f == RT_REDUCE_MEAN ? 0.25 : 1.0;
    const Array dx =
        run1(operation(RT_OP_SCALE, {x_dims}, {x_dims}, {{RT_ATTR_ALPHA, factor}}), {spread});
    expect_gradient([&](const Array& v) { return run1(forward, {v}); }, x, dy, dx, "dx");
  }
}

TEST(Gradient, SquareSum) {
  const Dims dims = {3, 5};
  const Array x = random_array(dims, 1);
  Array dx = x;
  for (double& v : dx) v *= 2 * 0.7;
  const Operation forward = operation(RT_OP_SQUARE_SUM, {dims}, {{1}});
  expect_gradient([&](const Array& v) { return run1(forward, {v}); }, x, {0.7}, dx, "2 x ds");
}

TEST(Gradient, Softmaxes) {
  const Dims dims = {3, 2, 5};
  const Array x = random_array(dims, 1, -2, 2), dy = random_array(dims, 2);
  for (const auto& [name, backward] : {std::pair{RT_OP_SOFTMAX, RT_OP_SOFTMAX_BACKWARD},
                                       std::pair{RT_OP_LOG_SOFTMAX, RT_OP_LOG_SOFTMAX_BACKWARD}}) {
    const Operation forward = operation(name, {dims}, {dims});
    const Array dx = run1(operation(backward, {dims, dims}, {dims}), {dy, run1(forward, {x})});
    expect_gradient([&](const Array& v) { return run1(forward, {v}); }, x, dy, dx, name);
  }
}

TEST(Gradient, CrossEntropy) {
  const Dims dims = {5, 4};
  const Array x = random_array(dims, 1, -2, 2), labels = {0, 3, 1, 1, 2};
  const Array weight = {0.2, 0.2, 0, 0.3, 0.2};
  Operation forward = operation(RT_OP_CROSS_ENTROPY, {dims, {5}, {5}}, {{1}});
  forward.inputs[1].dtype = RT_INT32;
  Operation backward = operation(RT_OP_CROSS_ENTROPY_BACKWARD, {dims, {5}, {5}, {1}}, {dims});
  backward.inputs[1].dtype = RT_INT32;
  const Array dx = run1(backward, {x, labels, weight, {1.7}});
  expect_gradient(
      [&](const Array& v) {
        return run1(forward, {v, labels, weight});
      },
      x, {1.7}, dx, "dlogits");
}

// Two ranks hold three and two of five classes: loss, count and gradient equal those of the whole.
TEST(Gradient, CrossEntropyInParts) {
  const Dims dims = {5, 5}, rows = {5};
  const Array x = random_array(dims, 1, -2, 2), labels = {0, 3, 1, 2, 4};
  const Array weight = {0.2, 0.2, 0, 0.3, 0.2};
  const int64_t begin[] = {0, 3, 5};
  const auto part_of = [&](const Array& all, int64_t rank) {
    return run1(operation(RT_OP_SLICE, {dims}, {{5, begin[rank + 1] - begin[rank]}},
                          {{RT_ATTR_AXIS, int64_t{1}}, {RT_ATTR_START, begin[rank]}}),
                {all});
  };
  const auto merged = [&](const Array& all) {
    Array parts;
    for (int64_t rank = 0; rank < 2; ++rank) {
      Operation op =
          operation(RT_OP_CROSS_ENTROPY_STATISTICS, {{5, begin[rank + 1] - begin[rank]}, rows},
                    {{1, 5, 4}}, {{RT_ATTR_FIRST_CLASS, begin[rank]}});
      op.inputs[1].dtype = RT_INT32;
      const Array part = run1(op, {part_of(all, rank), labels});
      parts.insert(parts.end(), part.begin(), part.end());
    }
    return run(operation(RT_OP_CROSS_ENTROPY_MERGE, {{2, 5, 4}, rows}, {{1}, {5, 2}, {1}}),
               {parts, weight});
  };
  Operation whole = operation(RT_OP_CROSS_ENTROPY, {dims, rows, rows}, {{1}});
  Operation whole_backward =
      operation(RT_OP_CROSS_ENTROPY_BACKWARD, {dims, rows, rows, {1}}, {dims});
  whole.inputs[1].dtype = whole_backward.inputs[1].dtype = RT_INT32;
  EXPECT_LT(relative_error(merged(x)[0], run1(whole, {x, labels, weight})), 1e-14);
  whole.name = RT_OP_CORRECT_COUNT;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    const Array logits = random_array(dims, seed);
    EXPECT_EQ(merged(logits)[2], run1(whole, {logits, labels, weight}));
  }
  const Array dx = run1(whole_backward, {x, labels, weight, {1.7}});
  for (int64_t rank = 0; rank < 2; ++rank) {
    const Dims own = {5, begin[rank + 1] - begin[rank]};
    Operation op = operation(RT_OP_CROSS_ENTROPY_BACKWARD_APPLY, {own, rows, rows, {1}, {5, 2}},
                             {own}, {{RT_ATTR_FIRST_CLASS, begin[rank]}});
    op.inputs[1].dtype = RT_INT32;
    EXPECT_LT(relative_error(run1(op, {part_of(x, rank), labels, weight, {1.7}, merged(x)[1]}),
                             part_of(dx, rank)),
              1e-14);
  }
  expect_gradient([&](const Array& v) { return merged(v)[0]; }, x, {1.7}, dx, "dlogits");
}

TEST(Gradient, MeanSquaredError) {
  for (const Dims& dims : {Dims{4, 3, 2}, Dims{6}}) {
    const Array y = random_array(dims, 1), target = random_array(dims, 2);
    const Array weight = random_array({dims[0]}, 3, 0, 1);
    const Operation forward = operation(RT_OP_MEAN_SQUARED_ERROR, {dims, dims, {dims[0]}}, {{1}});
    const Array dy =
        run1(operation(RT_OP_MEAN_SQUARED_ERROR_BACKWARD, {dims, dims, {dims[0]}, {1}}, {dims}),
             {y, target, weight, {0.6}});
    expect_gradient(
        [&](const Array& v) {
          return run1(forward, {v, target, weight});
        },
        y, {0.6}, dy, "dy");
  }
}

// Gradients of a normalisation with respect to x, gamma and beta.
void check_normalisation(const Operation& forward, const char* backward_name,
                         const std::vector<Array>& inputs) {
  const rt_tensor_desc& d = forward.inputs[0];
  const Dims x_dims(d.dims, d.dims + d.rank), c = {x_dims.back()};
  const Array dy = random_array(x_dims, 9);
  Saved saved;
  run(forward, inputs, &saved);
  const auto gradients =
      run(operation(backward_name, {x_dims, x_dims, c}, {x_dims, c, c}, {{RT_ATTR_EPSILON, 1e-3}}),
          {dy, inputs[0], inputs[1]}, &saved);
  for (size_t i = 0; i < 3; ++i) {
    const auto function = [&](const Array& v) {
      std::vector<Array> changed = inputs;
      changed[i] = v;
      return run1(forward, changed);
    };
    expect_gradient(function, inputs[i], dy, gradients[i], "input " + std::to_string(i));
  }
}

TEST(Gradient, BatchNorm) {
  for (const Dims& x : {Dims{3, 2, 4, 3}, Dims{7, 2}}) {
    const Dims c = {x.back()};
    const Operation forward =
        operation(RT_OP_BATCH_NORM, {x, c, c, c, c}, {x, c, c}, {{RT_ATTR_EPSILON, 1e-3}});
    check_normalisation(forward, RT_OP_BATCH_NORM_BACKWARD,
                        {random_array(x, 1), random_array(c, 2), random_array(c, 3),
                         random_array(c, 4), random_array(c, 5, 0.5, 2)});
  }
}

// One slice of the batch; the sum is over real rows only, as for a loss.
TEST(Gradient, BatchNormInParts) {
  for (const Dims& x_dims : {Dims{3, 2, 4, 3}, Dims{7, 2}}) {
    const Dims c = {x_dims.back()}, twice = {2 * c[0]}, moments = {2 * c[0] + 1};
    const Attributes epsilon = {{RT_ATTR_EPSILON, 1e-3}};
    Array weight = random_array({x_dims[0]}, 8, 0.1, 1), dy = random_array(x_dims, 9);
    weight[1] = 0;
    const int64_t row = count(x_dims) / x_dims[0];
    std::fill_n(dy.begin() + row, row, 0.0);
    const auto moments_of = [&](const Array& x) {
      const Array part =
          run1(operation(RT_OP_BATCH_NORM_STATISTICS, {x_dims, {x_dims[0]}}, {{1, moments[0]}}),
               {x, weight});
      const Array zeros(static_cast<size_t>(c[0]), 0.0);
      return run(operation(RT_OP_BATCH_NORM_MERGE, {{1, moments[0]}, c, c}, {moments, c, c}),
                 {part, zeros, zeros})[0];
    };
    const Operation apply =
        operation(RT_OP_BATCH_NORM_APPLY, {x_dims, c, c, moments}, {x_dims}, epsilon);
    const Array x = random_array(x_dims, 1), gamma = random_array(c, 2), beta = random_array(c, 3);
    const auto forward = [&](const Array& v, const Array& g, const Array& b) {
      return run1(apply, {v, g, b, moments_of(v)});
    };
    const Array m = moments_of(x);
    const Array sums = run1(operation(RT_OP_BATCH_NORM_BACKWARD_STATISTICS,
                                      {x_dims, x_dims, moments}, {{1, twice[0]}}, epsilon),
                            {dy, x, m});
    const Array dx =
        run1(operation(RT_OP_BATCH_NORM_BACKWARD_APPLY,
                       {x_dims, x_dims, c, moments, twice, {x_dims[0]}}, {x_dims}, epsilon),
             {dy, x, gamma, m, sums, weight});
    const auto middle = sums.begin() + c[0];
    expect_gradient([&](const Array& v) { return forward(v, gamma, beta); }, x, dy, dx, "x");
    expect_gradient([&](const Array& v) { return forward(x, v, beta); }, gamma, dy,
                    Array(middle, sums.end()), "gamma");
    expect_gradient([&](const Array& v) { return forward(x, gamma, v); }, beta, dy,
                    Array(sums.begin(), middle), "beta");
  }
}

TEST(Gradient, LayerNorm) {
  for (const Dims& x : {Dims{3, 2, 5}, Dims{4, 7}}) {
    const Dims d = {x.back()};
    const Operation forward =
        operation(RT_OP_LAYER_NORM, {x, d, d}, {x}, {{RT_ATTR_EPSILON, 1e-3}});
    check_normalisation(forward, RT_OP_LAYER_NORM_BACKWARD,
                        {random_array(x, 1), random_array(d, 2), random_array(d, 3)});
  }
}

TEST(Gradient, Attention) {
  for (const bool causal : {false, true}) {
    const Dims qkv_dims = {2, 5, 3 * 6}, y_dims = {2, 5, 6};
    const Attributes attributes = {{RT_ATTR_HEADS, int64_t{2}}, {RT_ATTR_CAUSAL, int64_t{causal}}};
    const Array qkv = random_array(qkv_dims, 1, -2, 2), dy = random_array(y_dims, 2);
    const Operation forward = operation(RT_OP_ATTENTION, {qkv_dims}, {y_dims}, attributes);
    Saved saved;
    const Array y = run(forward, {qkv}, &saved)[0];
    const Array dqkv =
        run(operation(RT_OP_ATTENTION_BACKWARD, {y_dims, qkv_dims, y_dims}, {qkv_dims}, attributes),
            {dy, qkv, y}, &saved)[0];
    expect_gradient([&](const Array& x) { return run1(forward, {x}); }, qkv, dy, dqkv,
                    causal ? "causal" : "all");
  }
}

TEST(Gradient, Embedding) {
  const Dims indices_dims = {2, 3}, table_dims = {4, 5}, y_dims = {2, 3, 5};
  const Array indices = {1, 3, 1, 0, 1, 3}, table = random_array(table_dims, 1);
  const Array dy = random_array(y_dims, 2);
  Operation forward = operation(RT_OP_EMBEDDING, {indices_dims, table_dims}, {y_dims});
  forward.inputs[0].dtype = RT_INT32;
  Operation backward = operation(RT_OP_EMBEDDING_BACKWARD, {indices_dims, y_dims}, {table_dims});
  backward.inputs[0].dtype = RT_INT32;
  expect_gradient(
      [&](const Array& v) {
        return run1(forward, {indices, v});
      },
      table, dy, run1(backward, {indices, dy}), "dtable");
}

TEST(Gradient, TransposeByTheInverse) {
  const Dims x_dims = {2, 3, 4}, y_dims = {4, 2, 3};
  const Array x = random_array(x_dims, 1), dy = random_array(y_dims, 2);
  // Axis i of y is axis p[i] of x: p = (2, 0, 1), and its inverse is (1, 2, 0).
  const Operation forward =
      operation(RT_OP_TRANSPOSE, {x_dims}, {y_dims}, {{RT_ATTR_PERMUTATION, int64_t{0x102}}});
  const Operation inverse =
      operation(RT_OP_TRANSPOSE, {y_dims}, {x_dims}, {{RT_ATTR_PERMUTATION, int64_t{0x021}}});
  expect_gradient([&](const Array& v) { return run1(forward, {v}); }, x, dy, run1(inverse, {dy}),
                  "dx");
}

TEST(Gradient, ConcatSliceAndPad) {
  const Attributes axis = {{RT_ATTR_AXIS, int64_t{1}}};
  const Attributes second = {{RT_ATTR_AXIS, int64_t{1}}, {RT_ATTR_START, int64_t{2}}};
  const Dims a_dims = {2, 2, 3}, b_dims = {2, 4, 3}, c_dims = {2, 6, 3};
  const Array a = random_array(a_dims, 1), b = random_array(b_dims, 2),
              dc = random_array(c_dims, 3);
  const Operation concat = operation(RT_OP_CONCAT, {a_dims, b_dims}, {c_dims}, axis);
  const Operation slice = operation(RT_OP_SLICE, {c_dims}, {b_dims}, second);
  const Operation pad = operation(RT_OP_PAD, {b_dims}, {c_dims}, second);
  expect_gradient(
      [&](const Array& v) {
        return run1(concat, {a, v});
      },
      b, dc, run1(slice, {dc}), "concat");
  expect_gradient([&](const Array& v) { return run1(slice, {v}); }, dc, b, run1(pad, {b}), "slice");
  expect_gradient([&](const Array& v) { return run1(pad, {v}); }, b, dc, run1(slice, {dc}), "pad");
}

TEST(Gradient, Dropout) {
  const Dims dims = {3, 7};
  const Array x = random_array(dims, 1), dy = random_array(dims, 2);
  Operation op = operation(
      RT_OP_DROPOUT, {dims, {1}, {1}}, {dims},
      {{RT_ATTR_PROBABILITY, 0.4}, {RT_ATTR_SEED, int64_t{5}}, {RT_ATTR_STREAM, int64_t{2}}});
  op.inputs[1].dtype = op.inputs[2].dtype = RT_INT64;
  expect_gradient(
      [&](const Array& v) {
        return run1(op, {v, {3}, {10}});
      },
      x, dy, run1(op, {dy, {3}, {10}}), "dx");
}

}  // namespace
}  // namespace backends::reference::testing
