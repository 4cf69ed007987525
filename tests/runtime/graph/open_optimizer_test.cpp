// Optimizers of plugins as operations of the update.
#include "runtime/graph/open_optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/error.h"
#include "runtime/graph/update_operations.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::graph {
namespace {

using test::GraphRun;
using test::Numbers;

const Formula kMomentum = {
    "test.momentum", "p[E*] g[E*] lr[1] m[E*] step {beta} -> p[E*] m[E*]",
    "m = beta * m + g; p = p - lr * m / host(bias_correction, lr, step, beta);"};

// One step from p = 1, 2, m = 0.5, 0.25 with g = 4, -8, lr = 0.1; returns p and then m.
Numbers one_step(double scale, bool scaled) {
  Graph graph;
  const std::vector<Attribute> attributes = {{"beta", 0.75}};
  add_operation(graph, make_open_optimizer(kMomentum, attributes));
  const auto state = [&](const char* name, int64_t count) {
    return test::add_value(graph, name, ValueKind::kState, {count});
  };
  const ValueId p = state("p", 2), g = state("g", 2), m = state("m", 2);
  const ValueId lr = state("lr", 1), factor = state("scale", 1);
  const ValueId step = test::add_value(graph, "step", ValueKind::kInput, {1}, RT_INT64);
  Build build(graph);
  build.phase = Phase::kUpdate;
  std::vector<Attribute> all = attributes;
  all.push_back({kScaled, int64_t{scaled}});
  build.node_into("test.momentum_update", {p, g, lr, factor, m, step}, {p, m}, all);
  GraphRun run(graph, test::open_device("reference"));
  run.set(p, {1, 2});
  run.set(g, {4, -8});
  run.set(m, {0.5, 0.25});
  run.set(lr, {0.1});
  run.set(factor, {scale});
  run.set(step, {2});
  run.run();
  Numbers result = run.get(p);
  for (const double x : run.get(m)) result.push_back(x);
  return result;
}

Numbers expected(double scale) {
  const double m0 = 0.75 * 0.5 + scale * 4, m1 = 0.75 * 0.25 - scale * 8;
  const double correction = 1 - 0.75 * 0.75;
  return {1 - 0.1 * m0 / correction, 2 - 0.1 * m1 / correction, m0, m1};
}

TEST(OpenOptimizer, SeesScaledGradientsAndTheStep) {
  EXPECT_LT(test::relative_error(one_step(1, false), expected(1)), 1e-15);
  EXPECT_LT(test::relative_error(one_step(0.5, true), expected(0.5)), 1e-15);
}

TEST(OpenOptimizer, AStepWithTheScaleZeroChangesNothing) {
  EXPECT_EQ(one_step(0, true), (Numbers{1, 2, 0.5, 0.25}));
}

TEST(OpenOptimizer, ItsOperandsAreThoseOfItsSignature) {
  const OptimizerOperands operands = optimizer_operands(kMomentum);
  EXPECT_EQ(operands.state, std::vector<std::string>{"m"});
  EXPECT_TRUE(operands.step);
  const OperationSet set = [] {
    OperationSet of_plugin;
    of_plugin.add(make_open_optimizer(kMomentum, {{"beta", 0.75}}));
    return of_plugin;
  }();
  EXPECT_EQ(set.row("test.momentum_update")->kind, Kind::kOptimizer);
  EXPECT_EQ(set.row("test.momentum"), nullptr);
}

TEST(OpenOptimizer, FaultsAreThePlugins) {
  struct Fault {
    const char *signature, *text, *words;
  };
  const char* const s = "p[E*] g[E*] lr[1] m[E*] -> p[E*] m[E*]";
  const Fault faults[] = {
      {"p[E*] g[E*] -> p[E*]", "p = g", "has 2 inputs"},
      {"p[E*] g[E*] lr[1] m[E*] -> p[E*]", "p = g", "has other outputs"},
      {"p[E*] g[E*] lr[1] m[E*] -> m[E*] p[E*]", "p = g", "has other outputs"},
      {s, "p = p - lr * g", "does not give 'm'"},
      {s, "m = g; p = p - lr * sum(g, 0)", "uses reduce"},
      {s, "m = g; p = p - lr * softmax(g)", "from the same elements alone"},
      {s, "m[i<7] = g[6 - i]; p = p - m", "uses embedding"},
      {s, "m = g; p = p - lr * v", "does not know 'v'"},
  };
  for (const Fault& fault : faults) {
    const std::string message = test::message_of<DeviceError>([&] {
      make_open_optimizer({"test.op", fault.signature, fault.text}, {});
    });
    EXPECT_NE(message.find("plugin 'test': the formula of its operation 'op' "), std::string::npos)
        << message;
    EXPECT_NE(message.find(fault.words), std::string::npos) << fault.text << ": " << message;
  }
}

TEST(OpenOptimizer, AFaultOfTheRuntimeIsNoPlugins) {
  const std::string message = test::message_of<InternalError>([] {
    make_open_optimizer({"core.op", "p[E*] g[E*] lr[1] -> p[E*]", "p = p - lr * v"}, {});
  });
  EXPECT_NE(message.find("the formula of core.op does not know 'v'"), std::string::npos) << message;
}

}  // namespace
}  // namespace runtime::graph
