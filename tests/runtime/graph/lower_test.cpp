// Operations that a device refuses are composed from others, with the same results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "runtime/graph/autodiff.h"
#include "runtime/graph/fuse.h"
#include "tests/runtime/graph/fake_target.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::graph {
namespace {

using test::GraphRun;
using test::Numbers;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kComposed =
    "global_avg_pool,global_avg_pool_backward,mean_squared_error,mean_squared_error_backward,"
    "square_sum";

// The loss mean((global_avg_pool(x) - target)^2) + 0.1 sum(x^2) and its gradient.
struct Result {
  Numbers loss, gradient;
  std::vector<std::string> notes;
  std::string operations;
};

Result run_on(const std::shared_ptr<plugins::host::Device>& device) {
  Graph graph;
  Build build(graph);
  build.layer = "head";
  const ValueId x = test::add_value(graph, "x", ValueKind::kParameter, {3, 2, 4, 5});
  const ValueId target = test::add_value(graph, "target", ValueKind::kInput, {3, 5});
  const ValueId weight = test::add_value(graph, "weight", ValueKind::kInput, {3});
  const ValueId one = test::add_value(graph, "one", ValueKind::kState, {1});
  const ValueId error = build.mean_squared_error(build.global_avg_pool(x), target, weight);
  const ValueId loss = build.add(error, build.scale(build.square_sum(x), 0.1));
  const ValueId gradient = differentiate(graph, loss, one, {x}).at(x);
  const ValueId loss_out = test::add_output(graph, loss, "loss");
  const ValueId gradient_out = test::add_output(graph, gradient, "gradient");
  GraphRun run(graph, device);
  run.set(x, test::random_numbers(120, 1));
  run.set(target, test::random_numbers(15, 2));
  run.set(weight, {0.5, 0.3, 0});
  run.set(one, {1});
  run.run();
  return {run.get(loss_out), run.get(gradient_out), run.notes(), operations(run.program().graph())};
}

TEST(Lower, ComposedOperationsGiveTheSameNumbers) {
  const Result whole = run_on(test::open_device("reference"));
  const Result composed =
      run_on(test::open_device("simulated", {{"refuse", kComposed}, {"poison", "true"}}));
  EXPECT_THAT(whole.operations, HasSubstr("global_avg_pool"));
  EXPECT_TRUE(whole.notes.empty());
  for (const char* op : {"global_avg_pool", "mean_squared_error", "square_sum"})
    EXPECT_THAT(composed.operations, Not(HasSubstr(op)));
  EXPECT_LT(test::relative_error(composed.loss, whole.loss), 1e-13);
  EXPECT_LT(test::relative_error(composed.gradient, whole.gradient), 1e-13);
  EXPECT_EQ(composed.notes.size(), 5u);
  for (const std::string& note : composed.notes)
    EXPECT_THAT(note, AllOf(HasSubstr("is composed of other operations"), HasSubstr("simulated:")));
}

TEST(Lower, ComposesEachOperationOnItsOwn) {
  const Result whole = run_on(test::open_device("reference"));
  for (const char* op : {"global_avg_pool", "global_avg_pool_backward", "mean_squared_error",
                         "mean_squared_error_backward", "square_sum"}) {
    const Result composed = run_on(test::open_device("simulated", {{"refuse", op}}));
    EXPECT_EQ(composed.notes.size(), 1u) << op;
    EXPECT_LT(test::relative_error(composed.loss, whole.loss), 1e-13) << op;
    EXPECT_LT(test::relative_error(composed.gradient, whole.gradient), 1e-13) << op;
  }
}

TEST(Lower, ARefusalWithoutCompositionNamesLayerOperationDeviceAndReason) {
  Graph graph;
  Build build(graph);
  build.layer = "layer3.conv";
  const ValueId x = test::add_value(graph, "x", ValueKind::kInput, {1, 5, 5, 1});
  const ValueId w = test::add_value(graph, "w", ValueKind::kParameter, {1, 3, 3, 1});
  build.conv2d(x, w, {});
  FakeTarget target;
  target.refuses = {RT_OP_CONV2D};
  EXPECT_THAT(test::message_of<DeviceError>([&] { lower(graph, target); }),
              AllOf(HasSubstr("layer 'layer3.conv'"), HasSubstr("conv2d"), HasSubstr("fake:0"),
                    HasSubstr("it is refused here"), HasSubstr("device.backend")));
}

TEST(Lower, AnEmulatedOperationStaysAndIsNamed) {
  Graph graph;
  Build build(graph);
  build.layer = "head";
  const ValueId x = test::add_value(graph, "x", ValueKind::kInput, {4, 4});
  build.square_sum(x);
  FakeTarget target;
  target.emulates = {RT_OP_SQUARE_SUM};
  EXPECT_THAT(
      lower(graph, target),
      testing::ElementsAre("square_sum of layer 'head' is slow: fake:0 emulates it (without "
                           "the library)"));
  EXPECT_EQ(graph.nodes.size(), 1u);
}

TEST(Lower, OneLineForEachKindOfReplacement) {
  Graph graph;
  Build build(graph);
  const ValueId x = test::add_value(graph, "x", ValueKind::kInput, {4, 4});
  build.square_sum(x);
  build.square_sum(build.add(x, x));
  FakeTarget target;
  target.refuses = {RT_OP_SQUARE_SUM};
  EXPECT_EQ(lower(graph, target).size(), 1u);
}

}  // namespace
}  // namespace runtime::graph
