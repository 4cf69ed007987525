// Nodes that run on a fallback device, beside those of the program's own.
#include "runtime/exec/fallback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/exec/span_recorder.h"
#include "runtime/graph/autodiff.h"
#include "runtime/graph/build.h"
#include "tests/runtime/support/compile.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::exec {
namespace {

using graph::Build;
using graph::Graph;
using graph::ValueId;
using graph::ValueKind;
using plugins::host::Device;
using test::Numbers;

// A graph on the simulated device, which refuses operations, beside the reference.
class Refusing {
 public:
  Refusing(Graph graph, const std::string& refused, bool record = false)
      : device_(test::open_device("simulated", {{"refuse", refused}, {"poison", "true"}})),
        stream_(device_->create_stream()),
        storage_(device_),
        arena_(device_) {
    CompileOptions options{.target = {.tune = Tune::kOff}, .record = record};
    options.target.fallback = test::open_device("reference");
    compiled_ = test::compile(std::move(graph), device_, storage_, arena_, options);
  }

  Program& program() { return *compiled_.program; }
  plugins::host::Stream& stream() { return stream_; }

  void set(ValueId id, const Numbers& numbers) {
    stream_.copy(program().address(id), numbers.data(), numbers.size() * sizeof(double));
    stream_.synchronize();
  }
  Numbers get(ValueId id) {
    Numbers numbers(graph::element_count(program().graph().value(id).dims));
    stream_.copy(numbers.data(), program().address(id), numbers.size() * sizeof(double));
    stream_.synchronize();
    return numbers;
  }
  // The operations that run on the reference.
  std::vector<std::string> moved() {
    std::vector<std::string> list;
    for (const graph::Node& node : program().graph().nodes)
      if (node.on_fallback) list.push_back(node.op);
    return list;
  }

 private:
  std::shared_ptr<Device> device_;
  plugins::host::Stream stream_;
  Storage storage_;
  Arena arena_;
  test::Compiled compiled_;
};

// square_sum(tanh(max_pool2d(x))) and its gradient by x.
struct Pooled {
  Graph graph;
  ValueId x, one, loss, gradient;
  Pooled() {
    Build build(graph);
    build.layer = "pool";
    x = test::add_value(graph, "x", ValueKind::kParameter, {3, 6, 6, 4});
    one = test::add_value(graph, "one", ValueKind::kState, {1});
    const ValueId y = build.max_pool2d(
        x, {.kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2, .padding = {}});
    const ValueId sum = build.square_sum(build.activation(y, RT_ACTIVATION_TANH));
    const ValueId dx = graph::differentiate(graph, sum, one, {x}).at(x);
    loss = test::add_output(graph, sum, "loss");
    gradient = test::add_output(graph, dx, "gradient");
  }
};

const Numbers kNumbers = test::random_numbers(3 * 6 * 6 * 4, 1);

TEST(Fallback, WhatForwardSavesReachesBackward) {
  const Pooled pooled;
  test::GraphRun whole(pooled.graph, test::open_device("reference"));
  whole.set(pooled.x, kNumbers);
  whole.set(pooled.one, {1});
  whole.run();
  // With the third list other nodes use the host memory between the two.
  for (const char* refused :
       {"max_pool2d", "max_pool2d_backward",
        "max_pool2d,activation,activation_backward,square_sum,multiply,scale"}) {
    Refusing run(pooled.graph, refused);
    EXPECT_THAT(run.moved(), testing::IsSupersetOf({"max_pool2d", "max_pool2d_backward"}));
    run.set(pooled.x, kNumbers);
    run.set(pooled.one, {1});
    for (int i = 0; i < 3; ++i) run.program().run(run.stream());
    EXPECT_EQ(run.get(pooled.loss), whole.get(pooled.loss)) << refused;
    EXPECT_EQ(run.get(pooled.gradient), whole.get(pooled.gradient)) << refused;
  }
}

// An optimizer with a scale of 0 writes nothing, so that its results must be its operands.
TEST(Fallback, AnOptimizerWorksInPlace) {
  for (const double scale : {0.0, 1.0}) {
    Graph graph;
    Build build(graph);
    build.phase = graph::Phase::kUpdate;
    const ValueId p = test::add_value(graph, "p", ValueKind::kParameter, {100});
    const ValueId g = test::add_value(graph, "g", ValueKind::kState, {100});
    const ValueId lr = test::add_value(graph, "lr", ValueKind::kState, {1});
    const ValueId by = test::add_value(graph, "scale", ValueKind::kState, {1});
    build.node_into(RT_OP_SGD, {p, g, lr, by}, {p});
    Refusing run(graph, "sgd");
    ASSERT_THAT(run.moved(), testing::ElementsAre("sgd"));
    EXPECT_LT(run.program().fallback().bytes(), 3 * 100 * sizeof(double)) << "p is there once";
    const Numbers before = test::random_numbers(100, 1), gradient = test::random_numbers(100, 2);
    run.set(p, before);
    run.set(g, gradient);
    run.set(lr, {0.5});
    run.set(by, {scale});
    run.program().run(run.stream());
    const Numbers after = run.get(p);
    for (size_t i = 0; i < after.size(); ++i)
      EXPECT_DOUBLE_EQ(after[i], before[i] - 0.5 * scale * gradient[i]);
  }
}

TEST(Fallback, CostsAreTheBytesOfItsOperands) {
  const Pooled pooled;
  Refusing run(pooled.graph, "max_pool2d");
  const auto& nodes = run.program().graph().nodes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    ASSERT_EQ(run.program().fallback().runs(i), nodes[i].on_fallback);
    if (nodes[i].op != RT_OP_MAX_POOL2D) continue;
    const FallbackCost cost = run.program().fallback().cost(i);
    EXPECT_EQ(cost.bytes_to_host, 3u * 6 * 6 * 4 * 8);
    EXPECT_EQ(cost.bytes_from_host, 3u * 3 * 3 * 4 * 8);
    EXPECT_EQ(cost.kernel_ns, 0);
    run.program().run(run.stream());
    EXPECT_GT(run.program().fallback().cost(i).kernel_ns, 0);
  }
}

// What nodes need at different times lies in the same memory: here two halves of a chain.
TEST(Fallback, NodesShareTheHostMemory) {
  const auto bytes = [](int products) {
    Graph graph;
    Build build(graph);
    ValueId x = test::add_value(graph, "x", ValueKind::kInput, {64, 64});
    for (int i = 0; i < products; ++i) x = build.softmax(x);
    test::add_output(graph, x, "y");
    return Refusing(graph, "softmax").program().fallback().bytes();
  };
  EXPECT_EQ(bytes(2), 2u * 64 * 64 * 8);
  EXPECT_EQ(bytes(8), bytes(2));
}

TEST(Fallback, OnlyTheOthersAreRecorded) {
  const Pooled pooled;
  Refusing run(pooled.graph, "max_pool2d", true);
  run.set(pooled.x, kNumbers);
  run.set(pooled.one, {1});
  Numbers gradients;
  for (int i = 0; i < 3; ++i) {
    run.program().run(run.stream());
    const Numbers gradient = run.get(pooled.gradient);
    if (i > 0) {
      EXPECT_EQ(gradient, gradients);
    }
    gradients = gradient;
  }
  EXPECT_EQ(run.program().recorded().operations, run.program().graph().nodes.size() - 2);
}

TEST(Fallback, EveryNodeHasASpan) {
  const Pooled pooled;
  Refusing run(pooled.graph, "max_pool2d");
  SpanRecorder spans(run.stream());
  spans.begin(2);
  run.program().run(run.stream(), &spans);
  EXPECT_EQ(spans.take().size(), run.program().graph().nodes.size());
}

}  // namespace
}  // namespace runtime::exec
