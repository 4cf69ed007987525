// A step allocates nothing once its program is there.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

#include "runtime/train/open.h"
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

// Calls of malloc in each step after the second.
double allocations_per_step(const std::string& backend, const std::string& dtype) {
  const config::Config config = test::parse(kJob, {{"training.dtype", dtype}});
  const data::DatasetPair data = train::open_data(config, "");
  train::Trainer trainer(config, data.train->spec(), test::open_device(backend),
                         {Tune::kOff, false, {}});
  data::Loader loader(data.train, train::train_loader_options(config));
  const auto step = [&] {
    trainer.step(loader.next(), 0.1);
    while (trainer.next_result(true)) {
    }
  };
  step();
  step();
  constexpr int kSteps = 20;
  const int64_t before = test::malloc_count();
  for (int i = 0; i < kSteps; ++i) step();
  return static_cast<double>(test::malloc_count() - before) / kSteps;
}

TEST(Allocation, TheCounterCounts) {
  const int64_t before = test::malloc_count();
  const auto number = std::make_unique<int>(1);
  EXPECT_GE(test::malloc_count(), before + *number);
}

TEST(Allocation, AStepOnTheReferenceAllocatesNothing) {
  EXPECT_EQ(allocations_per_step("reference", "float32"), 0);
}

TEST(Allocation, AStepInFloat64AllocatesNothing) {
  EXPECT_EQ(allocations_per_step("reference", "float64"), 0);
}

// The core does the same as in the tests above; what is counted here is the backend's and oneDNN's
// together.
TEST(Allocation, OfTheCpuBackendAreReported) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the cpu backend was not built";
  const double count = allocations_per_step("cpu", "float32");
  std::printf("cpu backend: %.1f allocations a step\n", count);
  RecordProperty("allocations_per_step", std::to_string(count));
}

}  // namespace
}  // namespace runtime::exec
