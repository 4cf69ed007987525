// What run_training() makes of validation.metrics: the lines that it reports, the best validation,
// and checkpoints of it.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "runtime/config/metrics.h"
#include "runtime/error.h"
#include "runtime/session/reports/metrics_files.h"
#include "runtime/train/checkpoint/folder.h"
#include "runtime/train/device_meter.h"
#include "runtime/train/run/loop.h"
#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

using testing::HasSubstr;

class Lines : public Reporter {
 public:
  void note(const std::string& text) override { notes.push_back(text); }
  void step(const Metrics&, int64_t, int64_t) override {}
  void line(const Metrics& m) override { lines.push_back(m); }
  void epoch(const Metrics& m) override { epochs.push_back(m); }
  std::vector<std::string> notes;
  std::vector<Metrics> lines, epochs;
};

RunResult run(Job& job, Lines& lines, const RunOptions& options = {}) {
  return run_training(job.config, job.data, *job.programs, *job.trainer, lines, options);
}

const std::string kRegression = R"(
[model]
input = [6]
layers = [ { type = "linear", features = 1 } ]
[dataset]
name = "synthetic"
task = "regression"
samples = 40
prefetch = 0
[training]
global_batch_size = 8
dtype = "float64"
)";

// The value of `name` in a line of a validation.
double value_of(const Metrics& m, const std::string& name) {
  if (name == "loss") return *m.validation_loss;
  return name == "accuracy" ? *m.validation_accuracy : *m.validation.find(name);
}

class Monitor : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Metrics, Monitor,
                         testing::Values("loss", "accuracy", "top_2", "precision", "recall", "f1",
                                         "precision_micro", "recall_micro", "f1_micro", "auroc",
                                         "mse", "mae", "r2"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Monitor, DecidesTheBestValidationAndCheckpoint) {
  const std::string name = GetParam();
  const config::Metric* const metric = config::find_metric(name);
  const bool regression = metric != nullptr && metric->regression;
  std::vector<config::Override> settings = {{"training.epochs", "5"},
                                            {"optimizer.lr", "0.2"},
                                            {"dataset.validation_split", "0.4"},
                                            {"validation.monitor", name},
                                            {"checkpoint.interval_minutes", "0"},
                                            {"checkpoint.keep_best", "1"}};
  if (metric != nullptr) settings.push_back({"validation.metrics", "[\"" + name + "\"]"});
  Job job(regression ? kRegression : kTiny, "reference", settings);
  test::TemporaryFolder folder;
  RunOptions options;
  options.checkpoints.folder = folder.path() / "checkpoints";
  options.checkpoints.keep = {1, 1, name};
  options.checkpoints.on_main = [](const char*, const std::function<void()>& work) { work(); };
  options.checkpoints.note = [](const std::string&) {};
  Lines lines;
  const RunResult result = run(job, lines, options);
  EXPECT_EQ(result.checkpoint_error, "");

  std::vector<std::pair<double, int64_t>>
      values;  // the better ones first, the earlier of equal ones
  for (const Metrics& m : lines.lines) {
    if (!m.validation_loss) continue;
    const double value = value_of(m, name);
    values.emplace_back(config::larger_is_better(name) ? -value : value, m.step);
  }
  ASSERT_EQ(values.size(), 5u);
  const auto best = *std::min_element(values.begin(), values.end());
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best->step, best.second);
  EXPECT_EQ(result.best->value, config::larger_is_better(name) ? -best.first : best.first);
  const auto found = best_checkpoint(options.checkpoints.folder, options.checkpoints.keep);
  const SavedState state = read_manifest(found).state;
  EXPECT_EQ(state.monitored, result.best->value);
}

// Rows that are all of class 0: one class has no positive and the other no negative sample.
TEST(MonitorOfOneClass, IsAnErrorWithARemedy) {
  test::TemporaryFolder folder;
  const std::string toml =
      "[model]\ninput = [1]\nlayers = [ { type = \"linear\", features = 2 } ]\n"
      "[dataset]\nformat = \"csv\"\ntarget = \"y\"\nclasses = 2\npath = \"" +
      folder.write("train.csv", "x,y\n1,1\n2,0\n3,1\n4,0\n") + "\"\nvalidation_path = \"" +
      folder.write("validation.csv", "x,y\n1,0\n2,0\n") +
      "\"\n[training]\nglobal_batch_size = 2\n"
      "[validation]\nmetrics = [\"auroc\"]\n";
  Job reported(toml, "reference");
  Lines lines;
  run(reported, lines);
  EXPECT_TRUE(std::isnan(*lines.lines.back().validation.find("auroc")));
  EXPECT_THAT(session::to_json(lines.lines.back()), HasSubstr("\"validation_auroc\":null"));
  Job monitored(toml, "reference", {{"validation.monitor", "auroc"}});
  EXPECT_THAT(test::message_of<DataError>([&] { run(monitored, lines); }),
              HasSubstr("is not defined for the validation samples"));
}

TEST(EpochLines, HaveTheMeanLossAndTheTime) {
  for (const bool validates : {false, true}) {
    Job job(kTiny, "reference",
            {{"training.epochs", "3"},
             {"metrics.log_every_steps", "1"},
             {"dataset.validation_split", validates ? "0.2" : "0"}});
    Lines lines;
    const RunResult result = run(job, lines);
    ASSERT_EQ(lines.epochs.size(), 3u);
    EXPECT_EQ(result.epochs, 3);
    for (const Metrics& epoch : lines.epochs) {
      double sum = 0, samples = 0;
      for (const Metrics& m : lines.lines) {
        if (m.epoch != epoch.epoch) continue;
        // 20 samples in batches of 8, 8 and 4, or without validation samples 8 and 8.
        const double of_step = !validates && m.step % 3 == 0 ? 4 : 8;
        sum += m.loss * of_step;
        samples += of_step;
      }
      ASSERT_GT(samples, 8);
      EXPECT_NEAR(epoch.loss, sum / samples, 1e-12);
      EXPECT_GT(*epoch.epoch_seconds, 0);
      EXPECT_EQ(epoch.validation_loss.has_value(), validates);
    }
    EXPECT_GE(result.seconds, result.epoch_seconds * 3 * 0.99);
  }
}

// 2 x 3 products of 6 x 5 and 5 x 3 without the gradient of the samples, see model_flops_test.
TEST(Rates, AreThoseOfTheModelAndTheDevice) {
  Job job(kTiny, "reference", {{"training.epochs", "2"}, {"device.peak_tflops", "1e-3"}});
  Lines lines;
  const RunResult result = run(job, lines);
  const Metrics& m = lines.lines.back();
  EXPECT_NEAR(*m.mfu, m.samples_per_second * 210 / 1e9, 1e-12 * *m.mfu);
  EXPECT_FALSE(m.tokens_per_second);
  ASSERT_TRUE(result.mfu);
  EXPECT_NEAR(*result.mfu, 8 / result.cost.seconds * 210 / 1e9, 1e-12);
}

// A call that queues a step returns long before this device has computed it.
TEST(Rates, AreThoseOfTheClockWhereStepsAreQueued) {
  Job job(kTiny, test::open_device("simulated", {{"max_delay_us", "4000"}}),
          {{"training.epochs", "4"}});
  Lines lines;
  const RunResult result = run(job, lines);
  ASSERT_EQ(result.cost.steps, result.steps - 5);
  const double share = static_cast<double>(result.cost.steps) / static_cast<double>(result.steps);
  EXPECT_GT(result.cost.seconds * static_cast<double>(result.cost.steps),
            result.seconds * share / 2);
}

TEST(Rates, OfALanguageModelCountTokens) {
  Job job(
      "[model]\ninput = [5]\nlayers = [ { type = \"embedding\", vocabulary = 7, features = 6 }, "
      "{ type = \"linear\", features = 7 } ]\n[dataset]\nname = \"synthetic\"\ntask = "
      "\"next_token\"\nsamples = 40\nclasses = 7\n[training]\nglobal_batch_size = 8\n",
      "reference");
  Lines lines;
  const RunResult result = run(job, lines);
  const Metrics& m = lines.lines.back();
  EXPECT_NEAR(*m.tokens_per_second, 5 * m.samples_per_second, 1e-9 * *m.tokens_per_second);
  EXPECT_TRUE(result.tokens_per_second);
  EXPECT_FALSE(m.mfu);
}

// The simulated device always draws 123.456 W; the meter reads at most once a second.
TEST(Energy, IsThePowerOverTheTime) {
  DeviceMeter meter(test::open_device("simulated"));
  EXPECT_FALSE(meter.joules());
  const auto begin = std::chrono::steady_clock::now();
  meter.read();
  EXPECT_EQ(meter.joules(), 0);
  while (*meter.joules() == 0) meter.read();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(*meter.joules(), 123.456 * 0.999);
  EXPECT_LE(*meter.joules(), 123.456 * elapsed.count() * 1.001);
  DeviceMeter without(test::open_device("reference"));
  without.read();
  EXPECT_FALSE(without.joules());
}

TEST(EventFiles, HaveTheMetrics) {
  test::TemporaryFolder folder;
  Metrics m{10, 0, 0.25, 0.1, 100, 0.5, 0.75};
  m.validation.numbers = {{"f1", 0.5}, {"auroc", 0.75}};
  m.tokens_per_second = 100;
  m.mfu = 0.5;
  session::make_tensorboard(folder.path().string(), 0, std::cerr)->line(m);
  const auto file = *std::filesystem::directory_iterator(folder.path());
  const std::string bytes = test::read_text(file.path());
  for (const char* tag : {"validation/f1", "validation/auroc", "train/tokens_per_second",
                          "train/mfu", "validation/loss"})
    EXPECT_THAT(bytes, HasSubstr(tag));
}

}  // namespace
}  // namespace runtime::train
