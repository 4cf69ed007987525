// Checks inferred shapes, refusals, views and counted FLOPs.
#include "runtime/graph/build.h"

#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::graph {
namespace {

class BuildTest : public testing::Test {
 protected:
  BuildTest() { build_.layer = "third"; }
  ValueId value(Dims dims) {
    return test::add_value(graph_, "v", ValueKind::kInput, std::move(dims));
  }
  template <class Action>
  void expect_refused(Action action, const std::string& part) {
    const std::string message = test::message_of<ConfigurationError>(action);
    EXPECT_NE(message.find("layer 'third'"), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  Graph graph_;
  Build build_{graph_};
};

TEST_F(BuildTest, InfersShapes) {
  Convolution c;
  c.stride_h = 2;
  c.padding = {1, 1, 0, 0};
  const ValueId x = value({8, 28, 28, 3});
  EXPECT_EQ(graph_.value(build_.conv2d(x, value({20, 5, 3, 3}), c)).dims, (Dims{8, 13, 26, 20}));
  const Pooling p{3, 2, 2, 2, {1, 1, 0, 0}, true};
  EXPECT_EQ(graph_.value(build_.max_pool2d(x, p)).dims, (Dims{8, 14, 14, 3}));
  EXPECT_EQ(graph_.value(build_.global_avg_pool(x)).dims, (Dims{8, 3}));
  EXPECT_EQ(graph_.value(build_.transpose(x, {3, 0, 2, 1})).dims, (Dims{3, 8, 28, 28}));
  EXPECT_EQ(graph_.value(build_.reduce(x, RT_REDUCE_SUM, 0b0110)).dims, (Dims{8, 3}));
  EXPECT_EQ(graph_.value(build_.reduce(x, RT_REDUCE_SUM, 0b0110, true)).dims, (Dims{8, 1, 1, 3}));
  EXPECT_EQ(graph_.value(build_.add(value({4, 1}), value({3}))).dims, (Dims{4, 3}));
  EXPECT_EQ(graph_.value(build_.attention(value({2, 5, 24}), 4, true)).dims, (Dims{2, 5, 8}));
  const ValueId y = build_.dot_product_attention(value({2, 5, 24}), value({2, 7, 6}),
                                                 value({2, 7, 10}), {.heads = 8, .key_heads = 2});
  EXPECT_EQ(graph_.value(y).dims, (Dims{2, 5, 40}));
}

TEST_F(BuildTest, WindowOutput) {
  EXPECT_EQ(window_output(28, 0, 0, 3, 1, 1), 26);
  EXPECT_EQ(window_output(28, 1, 1, 3, 2, 1), 14);
  EXPECT_EQ(window_output(7, 0, 0, 3, 1, 3), 1);
  EXPECT_LE(window_output(6, 0, 0, 3, 1, 3), 0);
}

TEST_F(BuildTest, RefusesShapesThatDoNotFit) {
  expect_refused(
      [&] {
        build_.matmul(value({2, 3}), value({4, 5}));
      },
      "inner dimensions are 3 and 4");
  expect_refused([&] { build_.matmul(value({3}), value({3, 5})); }, "both need two dimensions");
  expect_refused([&] { build_.add(value({2, 3}), value({2})); }, "do not broadcast");
  expect_refused([&] { build_.multiply(value({2, 3}), value({4, 3})); }, "do not broadcast");
  expect_refused(
      [&] {
        build_.conv2d(value({1, 4, 4, 1}), value({1, 5, 5, 1}), {});
      },
      "does not fit into the padded image of 4x4");
  expect_refused(
      [&] {
        build_.conv2d(value({4, 4}), value({1, 5, 5, 1}), {});
      },
      "needs an image [N,H,W,C], got [4, 4]");
  expect_refused(
      [&] {
        build_.max_pool2d(value({1, 2, 2, 1}), {3, 3, 1, 1, {}, true});
      },
      "window of 3x3 does not fit");
  expect_refused(
      [&] {
        build_.mean_squared_error(value({4, 2}), value({4, 1}), value({4}));
      },
      "one feature for each target");
  expect_refused([&] { build_.attention(value({2, 5, 20}), 4, true); }, "4 heads on [2, 5, 20]");
  const auto attend = [&](const Dims& k, const DotProductAttention& a) {
    build_.dot_product_attention(value({2, 5, 8}), value(k), value({2, 5, 8}), a);
  };
  expect_refused([&] { attend({2, 5, 8}, {.heads = 4, .key_heads = 3}); }, "4 heads to 3 of keys");
  expect_refused([&] { attend({2, 6, 8}, {.heads = 4}); }, "keys [2, 6, 8]");
  expect_refused([&] { attend({2, 5, 8}, {.heads = 4, .window = 2}); }, "only if it is causal");
}

TEST_F(BuildTest, ViewsOfViewsHaveOneStorage) {
  const ValueId x = value({2, 6});
  const ValueId y = graph_.reshape(graph_.reshape(x, {3, 4}), {12});
  EXPECT_EQ(graph_.storage(y), x);
  EXPECT_EQ(graph_.reshape(x, {2, 6}), x);
}

TEST_F(BuildTest, CountsFlops) {
  build_.conv2d(value({2, 6, 6, 4}), value({8, 3, 3, 4}), {});
  EXPECT_DOUBLE_EQ(flops(graph_, graph_.nodes.back()), 2.0 * 2 * 4 * 4 * 8 * 3 * 3 * 4);
  build_.matmul(value({5, 6}), value({7, 6}), false, true);
  EXPECT_DOUBLE_EQ(flops(graph_, graph_.nodes.back()), 2.0 * 5 * 6 * 7);
  build_.attention(value({2, 5, 24}), 4, true);
  EXPECT_DOUBLE_EQ(flops(graph_, graph_.nodes.back()), 2 * 2.0 * 2 * 5 * 8 * 3);
  build_.dot_product_attention(value({2, 5, 8}), value({2, 5, 8}), value({2, 5, 8}),
                               {.heads = 4, .causal = true});
  EXPECT_DOUBLE_EQ(flops(graph_, graph_.nodes.back()), 2 * 2.0 * 2 * 5 * 8 * 3);
  // Windows of 1, 2 and 2 keys; 4 heads of 2 columns, and of 3 for values.
  build_.dot_product_attention(value({2, 3, 8}), value({2, 3, 4}), value({2, 3, 6}),
                               {.heads = 4, .key_heads = 2, .causal = true, .window = 2});
  EXPECT_DOUBLE_EQ(flops(graph_, graph_.nodes.back()), 2.0 * 2 * 5 * (8 + 12));
  build_.transpose(value({5, 6}), {1, 0});
  EXPECT_DOUBLE_EQ(flops(graph_, graph_.nodes.back()), 0);
}

}  // namespace
}  // namespace runtime::graph
