// The least time of a step: sums over the kernels that plans tell.
#include "runtime/analysis/least_time.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/train/open.h"
#include "runtime/train/rank/step_programs.h"
#include "tests/runtime/support/devices.h"

namespace runtime::analysis {
namespace {

constexpr DeviceLimits kLimits = {1e9, 1e12, 1e-6};

LeastTime of_small_step(const std::string& device, int64_t passes,
                        const std::string& precision = "none") {
  const config::Config config = test::parse(R"(
[model]
input = [6]
layers = [ { type = "linear", features = 3 } ]
[dataset]
name = "synthetic"
samples = 8
classes = 3
[training]
global_batch_size = 4
mixed_precision = ")" + precision + "\"\n");
  const data::DatasetPair data = train::open_data(config, "");
  train::StepPrograms programs(train::RankSetup(config, data.train->spec(),
                                                test::open_device(device),
                                                exec::CompileOptions{{.tune = exec::Tune::kOff}}));
  return least_time(*programs.any_compiled().program, passes, kLimits);
}

TEST(LeastTime, IsTheSumOverTheKernels) {
  const LeastTime step = of_small_step("simulated", 1);
  double bytes = 0, seconds = 0;
  int64_t launches = 0;
  for (const KernelTime& k : step.kernels) {
    bytes += k.bytes;
    seconds += k.seconds;
    launches += k.launches;
    EXPECT_DOUBLE_EQ(k.seconds, k.bytes / kLimits.bytes_per_second) << k.operation;
  }
  EXPECT_GE(launches, 3);  // at least a product, a loss and the update
  EXPECT_EQ(step.launches, launches);
  EXPECT_DOUBLE_EQ(step.bytes, bytes);
  EXPECT_DOUBLE_EQ(step.kernel_seconds, seconds);
  EXPECT_DOUBLE_EQ(step.gap_seconds, static_cast<double>(launches) * kLimits.launch_seconds);
  EXPECT_TRUE(step.left_out.empty());
  EXPECT_TRUE(std::is_sorted(
      step.kernels.begin(), step.kernels.end(),
      [](const KernelTime& a, const KernelTime& b) { return a.seconds > b.seconds; }));
}

TEST(LeastTime, CountsTheUpdateOnceAndTheRestForEachPass) {
  const LeastTime once = of_small_step("simulated", 1), twice = of_small_step("simulated", 2);
  const auto launches = [](const LeastTime& step, const std::string& operation) {
    int64_t count = 0;
    for (const KernelTime& k : step.kernels) count += k.operation == operation ? k.launches : 0;
    return count;
  };
  EXPECT_EQ(launches(twice, RT_OP_SGD), launches(once, RT_OP_SGD));
  EXPECT_EQ(launches(twice, RT_OP_MATMUL), 2 * launches(once, RT_OP_MATMUL));
}

// The update writes the 16-bit copies of the parameters, so that no step but the first casts them.
TEST(LeastTime, HasNoCopiesThatTheUpdateKeepsRight) {
  const auto casts = [](const std::string& precision) {
    int64_t count = 0;
    for (const KernelTime& k : of_small_step("simulated", 1, precision).kernels)
      count += k.operation == RT_OP_CAST ? k.launches : 0;
    return count;
  };
  EXPECT_EQ(casts("none"), 0);
  EXPECT_EQ(casts("bf16"), 1);  // of the samples
}

TEST(LeastTime, NamesWhatTheDeviceDoesNotTell) {
  const LeastTime step = of_small_step("reference", 1);
  EXPECT_EQ(step.launches, 0);
  EXPECT_NE(std::find(step.left_out.begin(), step.left_out.end(), RT_OP_MATMUL),
            step.left_out.end());
}

}  // namespace
}  // namespace runtime::analysis
