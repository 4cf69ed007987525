// Checks that folded convolutions are the same functions, and what is not folded.
#include "runtime/graph/fold_batch_norm.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/graph/build.h"
#include "runtime/graph/check.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::graph {
namespace {

// A convolution with batch normalisation whose parameters are parts of a flat buffer, as in a step.
class FoldBatchNormTest : public testing::Test {
 protected:
  FoldBatchNormTest() {
    build_.layer = "bn1";
    flat_ =
        test::add_value(graph_, "parameters", ValueKind::kParameter, {kWeights + 2 * kChannels});
    x_ = test::add_value(graph_, "x", ValueKind::kInput, {2, 5, 4, 3});
    mean_ = test::add_value(graph_, "mean", ValueKind::kState, {kChannels});
    variance_ = test::add_value(graph_, "variance", ValueKind::kState, {kChannels});
    w_ = part("w", 0, {kChannels, 3, 3, 3});
    gamma_ = part("gamma", kWeights, {kChannels});
    beta_ = part("beta", kWeights + kChannels, {kChannels});
    Convolution c;
    c.padding = {1, 1, 1, 1};
    y_ = build_.conv2d(x_, w_, c);
    z_ = build_.batch_norm_inference(y_, gamma_, beta_, mean_, variance_, 1e-3);
  }
  ValueId part(const std::string& name, int64_t begin, Dims dims) {
    Value v;
    v.name = name;
    v.dtype = RT_FLOAT64;
    v.dims = std::move(dims);
    v.base = flat_;
    v.offset = static_cast<uint64_t>(begin) * sizeof(double);
    return graph_.add_value(std::move(v));
  }
  int count(const std::string& op) const {
    return static_cast<int>(std::count_if(graph_.nodes.begin(), graph_.nodes.end(),
                                          [&](const Node& n) { return n.op == op; }));
  }

  static constexpr int64_t kChannels = 6, kWeights = kChannels * 27;
  Graph graph_;
  Build build_{graph_};
  ValueId flat_ = kNone, x_ = kNone, w_ = kNone, gamma_ = kNone, beta_ = kNone, mean_ = kNone,
          variance_ = kNone, y_ = kNone, z_ = kNone;
};

TEST_F(FoldBatchNormTest, IsTheSameFunctionAndFollowsTheParameters) {
  const ValueId out = test::add_output(graph_, z_, "out");
  Graph folded = graph_;
  fold_batch_norms(folded);
  EXPECT_EQ(fault_of(folded), "");
  EXPECT_TRUE(std::none_of(folded.nodes.begin(), folded.nodes.end(),
                           [](const Node& n) { return n.op == RT_OP_BATCH_NORM_INFERENCE; }));
  test::GraphRun plain(graph_, test::open_device("reference")),
      kept(std::move(folded), test::open_device("reference"));
  for (uint64_t round = 0; round < 3; ++round) {
    for (test::GraphRun* run : {&plain, &kept}) {
      run->set(flat_, test::random_numbers(kWeights + 2 * kChannels, 10 + round));
      run->set(x_, test::random_numbers(2 * 5 * 4 * 3, 20 + round));
      run->set(mean_, test::random_numbers(kChannels, 30 + round));
      run->set(variance_, test::random_numbers(kChannels, 40 + round, 0.1, 2));
      run->storage().parameters_changed();
      run->run();
    }
    EXPECT_LT(test::relative_error(kept.get(out), plain.get(out)), 1e-13) << round;
  }
}

TEST_F(FoldBatchNormTest, TheResultOfTheConvolutionThatIsReadElsewhereStays) {
  test::add_output(graph_, build_.add(y_, z_), "out");
  fold_batch_norms(graph_);
  EXPECT_EQ(count(RT_OP_BATCH_NORM_INFERENCE), 1);
}

TEST_F(FoldBatchNormTest, WeightsThatAreComputedStay) {
  graph_.value(flat_).kind = ValueKind::kInput;
  test::add_output(graph_, z_, "out");
  fold_batch_norms(graph_);
  EXPECT_EQ(count(RT_OP_BATCH_NORM_INFERENCE), 1);
}

}  // namespace
}  // namespace runtime::graph
