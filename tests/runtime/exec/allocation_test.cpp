// A step allocates nothing once its program exists.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

#include "runtime/train/open.h"
#include "runtime/train/step_programs.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/exec/malloc_count.h"
#include "tests/runtime/support/devices.h"

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
  const auto programs =
      std::make_shared<train::StepPrograms>(config, data.train->spec(), test::open_device(backend),
                                            exec::CompileOptions{{.tune = Tune::kOff}});
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
