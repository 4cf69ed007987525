// Compares convolutions by the matrix unit with plain loops. Without such a unit (AMX) they are
// skipped.

#include <gtest/gtest.h>

#include "backends/cpu/batch_blocked/matrix_unit_convolution.h"
#include "backends/cpu/batch_blocked/packed_gradient.h"
#include "tests/backends/cpu/batch_blocked_support.h"

namespace backends::cpu::batch_blocked {
namespace {

class MatrixUnit : public testing::Test {
 protected:
  void SetUp() override {
    if (matrix_unit_kernels() == nullptr) GTEST_SKIP() << "this processor has no AMX";
  }
};

// The shapes of all convolutions, and some with whole and with broken steps of 32 channels.
// prepare(shape) computes the expected result, and returns a function that checks it.
template <typename Prepare>
void for_shapes(Prepare prepare) {
  std::vector<ConvShape> shapes = conv_shapes();
  shapes.push_back(conv(37, 9, 9, 64, 96, 3, 3, 1, 1, 1, 1, 1));
  shapes.push_back(conv(48, 10, 10, 64, 40, 3, 3, 1, 1, 2, 1, 1));
  shapes.push_back(conv(64, 4, 4, 100, 33, 3, 3, 1, 1, 1, 1, 1));
  shapes.push_back(conv(32, 6, 6, 64, 128, 1, 1, 0, 0, 2));
  for (const ConvShape& shape : shapes) {
    const auto check = prepare(shape);
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(describe(kernels_for(widest_isa()), shape, threads));
      check(threads);
    }
  }
}

TEST_F(MatrixUnit, Forward) {
  for_shapes([](const ConvShape& s) {
    const Data data(s);
    const Values bias = numbers(s.o, 4), residual = numbers(s.n * s.p * s.q * s.o, 5);
    Values expected(data.y.size());
    for_products(s, [&](size_t x, size_t w, size_t y) { expected[y] += data.x[x] * data.w[w]; });
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = std::max(0.0f, expected[i] + bias[i % bias.size()] + residual[i]);
    }
    return [=](int threads) {
      Buffer x = block(data.x, s.n), w = copy(data.w), b = copy(bias), r = block(residual, s.n);
      PostOps post;
      post.ops[post.count++] = {Post::kBias, b.get()};
      post.ops[post.count++] = {Post::kResidualAdd, r.get()};
      post.ops[post.count++] = {Post::kRelu, nullptr};
      const MatrixUnitConvolution op(s, Direction::kForward, threads, kernels_for(widest_isa()));
      expect_near(run(op, x, w, s.p * s.q * s.o, s.n, post), expected, "y");
    };
  });
}

TEST_F(MatrixUnit, BackwardData) {
  for_shapes([](const ConvShape& s) {
    const Data data(s);
    Values expected(data.x.size());
    for_products(s, [&](size_t x, size_t w, size_t y) { expected[x] += data.y[y] * data.w[w]; });
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = data.x[i] > 0 ? expected[i] : 0.0f;
    return [=](int threads) {
      Buffer dy = block(data.y, s.n), w = copy(data.w), saved = block(data.x, s.n);
      PostOps post;
      post.ops[post.count++] = {Post::kReluBackward, saved.get()};
      const MatrixUnitConvolution op(s, Direction::kBackwardData, threads,
                                     kernels_for(widest_isa()));
      expect_near(run(op, dy, w, s.h * s.w * s.c, s.n, post), expected, "dx");
    };
  });
}

// Padding lanes are NaN, and none of them may be added to a sum.
TEST_F(MatrixUnit, BackwardWeights) {
  for_shapes([](const ConvShape& s) {
    const WeightGradients expected(s);
    return [=](int threads) {
      const PackedGradient op(s, threads, *matrix_unit_gradient_kernels(),
                              kernels_for(widest_isa()));
      check_weight_gradient(op, s, expected, 2e-6);
    };
  });
}

// NaN counts as equal to NaN.
void expect_same(const Values& actual, const Values& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i])))
        << i << ": " << actual[i] << ", expected " << expected[i];
  }
}

// What the unit cannot multiply is left to the direct algorithm as a whole.
TEST_F(MatrixUnit, NumbersThatCannotBePacked) {
  const ConvShape s = conv(20, 5, 5, 40, 8, 3, 3, 1, 1, 1, 1, 1);
  const KernelTable& k = kernels_for(widest_isa());
  const float inf = std::numeric_limits<float>::infinity();
  for (const float special : {inf, -inf, std::nanf(""), 3e38f, -1e9f}) {
    for (const bool in_weights : {false, true}) {
      SCOPED_TRACE(std::to_string(special) + (in_weights ? " in w" : " in x"));
      Data data(s);
      (in_weights ? data.w : data.x).front() = special;
      Buffer x = block(data.x, s.n), w = copy(data.w);
      const auto result = [&](const auto& op) { return run(op, x, w, s.p * s.q * s.o, s.n, {}); };
      expect_same(result(MatrixUnitConvolution(s, Direction::kForward, 2, k)),
                  result(Convolution(s, Direction::kForward, 2, k)));
    }
  }
}

TEST_F(MatrixUnit, GradientOfNumbersThatCannotBePacked) {
  const ConvShape s = conv(40, 5, 5, 40, 8, 3, 3, 1, 1, 1, 1, 1);
  const KernelTable& k = kernels_for(widest_isa());
  for (const bool in_dy : {false, true}) {
    Data data(s);
    (in_dy ? data.y : data.x).back() = std::numeric_limits<float>::infinity();
    Buffer x = block(data.x, s.n), dy = block(data.y, s.n);
    const auto gradient = [&](const auto& op) {
      Buffer dw(static_cast<int64_t>(data.w.size())), workspace(op.workspace_bytes() / 4);
      op.run(x.get(), dy.get(), dw.get(), nullptr, workspace.get());
      return Values(dw.get(), dw.get() + dw.size());
    };
    expect_same(gradient(PackedGradient(s, 2, *matrix_unit_gradient_kernels(), k)),
                gradient(WeightGradient(s, 2, k)));
  }
}

}  // namespace
}  // namespace backends::cpu::batch_blocked
