// Every candidate of a device computes what the definition says, in all its layouts and with any
// number of fused post-operations.
#include "tools/verify/candidates.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/runtime/support/devices.h"
#include "tests/tools/verify/operations.h"
#include "tools/verify/judge.h"

namespace runtime::verify {
namespace {

void expect_right(const std::shared_ptr<plugins::host::Device>& device,
                  const IsolatedOperation& isolated, size_t at_least) {
  const Judge judge(test::open_device("reference"));
  const HostTensors expected = judge.expect(isolated);
  const std::vector<Candidate> ways = list_candidates(*device, isolated, false, nullptr);
  EXPECT_GE(ways.size(), at_least);
  for (const Candidate& way : ways) {
    const Verdict v = judge.judge(*device, way.isolated, run_candidate(device, way), expected);
    EXPECT_TRUE(v.right) << describe(*device, way) << ": " << v.error << " of " << v.bound;
  }
  for (size_t i = 0; i < ways.size(); ++i) {
    for (size_t j = 0; j < ways.size(); ++j)
      EXPECT_EQ(is_same_candidate(ways[i], ways[j].isolated), i == j) << i << " and " << j;
  }
}

TEST(Candidates, OfTheProcessorInItsOwnLayouts) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the cpu plugin was not built";
  const auto cpu = test::open_device("cpu");
  expect_right(cpu, test::convolution(5), 2);
  expect_right(cpu, test::pooling_gradient(5), 1);
  std::set<bool> foreign;
  for (const Candidate& way : list_candidates(*cpu, test::convolution(5), false, nullptr))
    foreign.insert(way.isolated.operation.outputs[0].layout != RT_LAYOUT_CANONICAL);
  EXPECT_EQ(foreign.size(), 2u) << "canonical ones, and others";
}

TEST(Candidates, OfTheDefinition) {
  expect_right(test::open_device("reference"), test::convolution(2), 1);
}

// It refuses to choose the layout of an operand that is always canonical, such as the bias.
TEST(Candidates, OfADeviceThatChecksTheQuestions) {
  expect_right(test::open_device("simulated"), test::convolution(2), 1);
}

TEST(Candidates, PostOperationsThatAreNotFusedAreOperationsOfTheirOwn) {
  const auto device = test::open_device("reference");
  IsolatedOperation isolated = test::convolution(3);
  // Adds a residual, and multiplies by the derivative of a tanh.
  const rt_tensor_desc y = isolated.operation.outputs[0];
  for (const int32_t kind : {RT_POST_RESIDUAL_ADD, RT_POST_ACTIVATION_BACKWARD}) {
    isolated.operation.inputs.push_back(y);
    isolated.inputs.push_back(test::random_tensor(y, static_cast<uint32_t>(10 + kind)));
    isolated.operation.post_ops.push_back(
        {kind, kind == RT_POST_ACTIVATION_BACKWARD ? RT_ACTIVATION_TANH : 0,
         static_cast<int32_t>(isolated.inputs.size()) - 1});
  }
  const Judge judge(device);
  const HostTensors expected = judge.expect(isolated);
  for (uint32_t fused = 0; fused <= 4; ++fused) {
    const Candidate way{isolated, "reference", fused};
    const Verdict v = compare(run_candidate(device, way)[0], expected[0], {1e-5});
    EXPECT_TRUE(v.right) << fused << " fused: " << v.error;
  }
}

TEST(Candidates, WhatIsStoredIsAnOutputEvenWhereNothingIsFused) {
  const auto device = test::open_device("reference");
  plugins::host::Operation op;
  op.name = RT_OP_MATMUL;
  const rt_tensor_desc square = test::make_tensor_desc(RT_FLOAT32, {3, 3});
  op.inputs = {square, square, test::make_tensor_desc(RT_FLOAT32, {3}), square};
  op.outputs = {square, square};
  op.post_ops = {{RT_POST_BIAS, 0, 2},
                 {RT_POST_STORE, 0, -1},
                 {RT_POST_ACTIVATION, RT_ACTIVATION_GELU, -1},
                 {RT_POST_RESIDUAL_ADD, 0, 3}};
  const IsolatedOperation isolated = test::with_random_inputs(op);
  const Judge judge(device);
  const HostTensors expected = judge.expect(isolated);
  for (uint32_t fused = 0; fused <= 4; ++fused) {
    const HostTensors actual = run_candidate(device, {isolated, "reference", fused});
    ASSERT_EQ(actual.size(), 2u) << fused << " fused";
    EXPECT_TRUE(compare_all(actual, expected, {{1e-5}, {1e-5}}, true).right) << fused << " fused";
  }
  EXPECT_EQ(judge.bounds(isolated, expected, 0).size(), 2u);
}

TEST(Candidates, ARefusalHasItsReason) {
  const auto device = test::open_device("simulated", {{"refuse", "max_pool2d"}});
  std::string reason;
  EXPECT_TRUE(list_candidates(*device, test::pooling_gradient(2), false, &reason).empty());
  EXPECT_EQ(reason, "max_pool2d is refused by the option 'refuse'");
}

}  // namespace
}  // namespace runtime::verify
