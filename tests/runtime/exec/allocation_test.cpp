// A step allocates nothing once its program exists.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

#include "runtime/exec/program.h"
#include "runtime/graph/autodiff.h"
#include "runtime/graph/fuse.h"
#include "runtime/train/open.h"
#include "runtime/train/rank/step_programs.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/exec/malloc_count.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::exec {
namespace {

constexpr const char* kJob = R"(
[model]
input = [2, 8, 8]
layers = [
  { type = "conv2d", channels = 8, kernel = 3, padding = 1, bias = false },
  { type = "batch_norm", activation = "relu" },
  { type = "max_pool2d", kernel = 2 },
  { type = "dropout", probability = 0.2 },
  { type = "flatten" },
  { type = "linear", features = 4 },
]
[dataset]
name = "synthetic"
samples = 32
classes = 4
prefetch = 0
[training]
global_batch_size = 8
max_norm = 1.0
[optimizer]
momentum = 0.9
)";

struct Allocations {
  double by_onednn = 0, by_others = 0;
};

// The calls of malloc in each step after the second.
Allocations allocations_per_step(const std::string& backend, const std::string& dtype) {
  const config::Config config = test::parse(kJob, {{"training.dtype", dtype}});
  const data::DatasetPair data = train::open_data(config, "");
  const auto programs = std::make_shared<train::StepPrograms>(
      train::RankSetup(config, data.train->spec(), test::open_device(backend),
                       exec::CompileOptions{{.tune = Tune::kOff}}));
  train::Trainer trainer(programs);
  data::Loader loader(data.train, train::train_loader_options(config));
  const auto step = [&] {
    trainer.step(loader.next(), 0.1);
    while (trainer.next_result(true)) {
    }
  };
  step();
  step();
  constexpr int kSteps = 20;
  const test::MallocAttribution count;
  for (int i = 0; i < kSteps; ++i) step();
  return {static_cast<double>(count.by_onednn()) / kSteps,
          static_cast<double>(count.by_others()) / kSteps};
}

TEST(Allocation, TheCounterCounts) {
  const test::MallocAttribution attribution;
  const int64_t before = test::malloc_count();
  const auto number = std::make_unique<int>(1);
  EXPECT_GE(test::malloc_count(), before + *number);
  EXPECT_GE(attribution.by_others(), 1);
  EXPECT_EQ(attribution.by_onednn(), 0);
}

TEST(Allocation, AStepOnTheReferenceAllocatesNothing) {
  EXPECT_EQ(allocations_per_step("reference", "float32").by_others, 0);
}

TEST(Allocation, AStepInFloat64AllocatesNothing) {
  EXPECT_EQ(allocations_per_step("reference", "float64").by_others, 0);
}

// The device itself without pooling, whose place another device takes.
class WithoutPooling : public DeviceTarget {
 public:
  using DeviceTarget::DeviceTarget;
  graph::Support support(const graph::Graph& graph, const graph::Node& node) override {
    if (node.op.starts_with("max_pool2d") && !node.on_fallback) return {.reason = "not here"};
    return DeviceTarget::support(graph, node);
  }
};

// The simulated device, which refuses operations, allocates in its own threads.
TEST(Allocation, NodesOnAFallbackDeviceAllocateNothing) {
  const auto device = test::open_device("reference");
  CompileOptions options{{.tune = Tune::kOff}};
  options.target.fallback = test::open_device("reference");
  graph::Graph graph;
  graph::Build build(graph);
  const auto x = test::add_value(graph, "x", graph::ValueKind::kParameter, {2, 4, 4, 3});
  const auto one = test::add_value(graph, "one", graph::ValueKind::kState, {1});
  const auto y = build.max_pool2d(
      x, {.kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2, .padding = {}});
  const auto dx = graph::differentiate(graph, build.square_sum(y), one, {x}).at(x);
  test::add_output(graph, dx, "dx");
  WithoutPooling target(device, options.target);
  graph::fit_to_device(graph, target);
  Storage storage(device);
  Arena arena(device);
  Program program(std::move(graph), device, storage, arena, options);
  ASSERT_GT(program.fallback().bytes(), 0u);
  plugins::host::Stream stream = device->create_stream();
  program.run(stream);
  const test::MallocAttribution count;
  for (int i = 0; i < 20; ++i) program.run(stream);
  EXPECT_EQ(count.by_others(), 0);
}

// oneDNN's execute allocates in every call, so its calls are counted separately.
TEST(Allocation, AStepOnTheCpuAllocatesNothingBesideOnednn) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the cpu backend was not built";
  const Allocations count = allocations_per_step("cpu", "float32");
  std::printf("oneDNN itself: %.1f allocations a step\n", count.by_onednn);
  RecordProperty("allocations_by_onednn", std::to_string(count.by_onednn));
  EXPECT_EQ(count.by_others, 0);
}

}  // namespace
}  // namespace runtime::exec
