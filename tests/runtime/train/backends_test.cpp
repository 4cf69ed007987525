// The same jobs on several backends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "plugins/host/error.h"
#include "runtime/data/synthetic.h"
#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

constexpr int kStepsOnBackends = 20;
constexpr double kBackendTolerance = 1e-4;

// Before each step the cpu gets the weights of the reference; then every gradient is compared by
// norm. The reference trains on by itself, and its loss must fall, otherwise the comparison would
// show little.
void expect_same_gradients(const std::string& toml,
                           const std::vector<config::Override>& overrides = {}) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the cpu backend was not built";
  Job reference(toml, "reference", overrides), cpu(toml, "cpu", overrides);
  Numbers losses;
  for (int step = 0; step < kStepsOnBackends; ++step) {
    cpu.trainer->set_weights(reference.trainer->weights(), "memory");
    const data::Batch& batch = reference.loader->next();
    const data::TensorFile expected = reference.trainer->gradients(batch);
    const data::TensorFile actual = cpu.trainer->gradients(batch);
    ASSERT_EQ(actual.tensors.size(), expected.tensors.size());
    for (const auto& [name, tensor] : expected.tensors) {
      EXPECT_LT(test::relative_error(numbers(actual.tensors.at(name)), numbers(tensor)),
                kBackendTolerance)
          << name << ", step " << step;
    }
    reference.trainer->step(batch, reference.config.optimizer.lr);
    for (double loss : reference.losses()) losses.push_back(loss);
  }
  ASSERT_EQ(losses.size(), size_t{kStepsOnBackends});
  EXPECT_LT(losses.back(), 0.9 * losses.front());
}

// Plain SGD changes LeNet's loss little in 20 steps.
const std::vector<config::Override> kFaster = {{"optimizer.name", "adamw"},
                                               {"optimizer.lr", "0.003"}};

TEST(Backends, LeNetHasTheSameGradients) { expect_same_gradients(kLeNet, kFaster); }
TEST(Backends, MlpHasTheSameGradients) { expect_same_gradients(kMlp); }
TEST(Backends, ResidualNetworkHasTheSameGradients) { expect_same_gradients(kResidual); }

TEST(Backends, LeNetOnFashionMnistHasTheSameGradients) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "install dataset-fashion-mnist";
  expect_same_gradients(
      "model.preset = \"lenet\"\ndataset.name = \"fashion_mnist\"\n"
      "training.global_batch_size = 32\n",
      kFaster);
}

// Trains on the cpu twice.
TEST(Backends, TheSameJobGivesTheSameBits) {
  const std::string backend = test::has_backend("cpu") ? "cpu" : "reference";
  for (const std::string& toml : {kLeNet, kResidual}) {
    Job first(toml, backend), second(toml, backend);
    const Numbers losses = first.step(10);
    EXPECT_EQ(second.step(10), losses);
    EXPECT_TRUE(same_bits(first.trainer->weights(), second.trainer->weights()));
    EXPECT_FALSE(same_bits(first.trainer->weights(), Job(toml, backend).trainer->weights()));
  }
}

TEST(Backends, AnotherSeedGivesOtherWeights) {
  Job first(kTiny, "reference"), second(kTiny, "reference", {{"debug.seed", "7"}});
  EXPECT_FALSE(same_bits(first.trainer->weights(), second.trainer->weights()));
}

// The simulated device has queued streams, random delays, and memory that the host cannot access
// and that holds NaN when it is fresh.
void expect_same_on_simulated(const std::string& toml, int steps) {
  Job reference(toml, "reference");
  const Numbers losses = reference.step(steps);
  for (int index : {0, 1}) {
    Job simulated(toml, test::open_device("simulated",
                                          {{"poison", "true"},
                                           {"max_delay_us", "300"},
                                           {"seed", std::to_string(index + 1)}},
                                          index));
    EXPECT_EQ(simulated.step(steps), losses);
    EXPECT_TRUE(same_bits(simulated.trainer->weights(), reference.trainer->weights()));
  }
}

TEST(Backends, LeNetOnSimulatedEqualsTheReference) { expect_same_on_simulated(kLeNet, 4); }
TEST(Backends, MlpOnSimulatedEqualsTheReference) { expect_same_on_simulated(kMlp, 3); }
TEST(Backends, ResidualNetworkOnSimulatedEqualsTheReference) {
  expect_same_on_simulated(kResidual, 4);
}

// Steps of other sizes, evaluation and gradients share the arena with steps that are still in the
// queue.
TEST(Backends, ProgramsOfManySizesShareAQueuedDevice) {
  const auto work = [](Job& job) {
    Numbers result;
    data::LoaderOptions options = train_loader_options(job.config);
    for (int64_t rows : {4, 24, 8}) {
      options.batch_size = rows;
      data::Loader loader(job.data.train, options);
      job.trainer->step(loader.next(), 0.1);
      job.trainer->step(loader.next(), 0.1);
      const data::TensorFile g = job.trainer->gradients(loader.next());
      for (double x : numbers(g.tensors.at("logits"))) result.push_back(x);
      job.trainer->step(loader.next(), 0.1);
      options.shuffle = false;
      options.batch_size = 5 * rows;
      data::Loader evaluation(job.data.train, options);
      result.push_back(job.trainer->evaluate(evaluation).loss);
      options.shuffle = true;
    }
    for (double x : job.losses()) result.push_back(x);
    return result;
  };
  const std::vector<config::Override> small = {{"dataset.samples", "64"},
                                               {"training.global_batch_size", "2"}};
  Job reference(kResidual, "reference", small);
  Job simulated(kResidual,
                test::open_device("simulated", {{"poison", "true"}, {"max_delay_us", "2000"}}),
                small);
  EXPECT_EQ(work(simulated), work(reference));
}

TEST(Backends, AFaultOfTheDeviceIsAnErrorThatNamesIt) {
  for (const char* after : {"0", "7"}) {
    const std::string message = test::message_of<plugins::host::Error>([&] {
      Job job(kTiny,
              test::open_device("simulated", {{"fail_launch", "matmul"}, {"fail_after", after}}));
      job.step(4);
    });
    EXPECT_THAT(message, testing::HasSubstr("simulated:0"));
    EXPECT_THAT(message, testing::HasSubstr("matmul"));
  }
}

TEST(Backends, ADeviceWithoutMemoryIsAnErrorWithTheSizes) {
  const std::string message = test::message_of<plugins::host::Error>([&] {
    Job job(kMlp, test::open_device("simulated", {{"memory_mb", "4"}}));
  });
  EXPECT_THAT(message, testing::HasSubstr("simulated:0"));
}

}  // namespace
}  // namespace runtime::train
