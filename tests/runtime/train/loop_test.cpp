// Checks loss windows, reporters, metrics files, stops and errors of the training loop.
#include "runtime/train/run/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "runtime/error.h"
#include "runtime/session/reports/metrics_files.h"
#include "runtime/train/device_meter.h"
#include "runtime/train/loss_mean.h"
#include "runtime/train/loss_window.h"
#include "runtime/train/run/stop_signal.h"
#include "runtime/train/schedule.h"
#include "runtime/train/weights.h"
#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(LossWindowTest, KeepsTheOrderWhileTheDeviceRuns) {
  const auto device = test::open_device("simulated", {{"max_delay_us", "1000"}});
  plugins::host::Stream stream = device->create_stream();
  plugins::host::Memory memory = device->allocate(8);
  LossWindow window(device, RT_FLOAT64);
  EXPECT_FALSE(window.pop(true));
  std::vector<double> popped;
  const auto take = [&](const WeighedLoss& loss) {
    EXPECT_EQ(loss.weight, loss.loss / 8);
    EXPECT_EQ(loss.scale, static_cast<int>(loss.loss) % 2 == 0 ? loss.loss : 1);
    popped.push_back(loss.loss);
  };
  for (int i = 0; i < 10; ++i) {
    if (window.full()) take(*window.pop(true));
    const double loss = i;
    stream.copy(memory.data(), &loss, sizeof(loss));
    window.push(stream, memory.data(), i % 2 == 0 ? memory.data() : nullptr, loss / 8);
  }
  EXPECT_TRUE(window.full());
  while (const auto loss = window.pop(true)) take(*loss);
  EXPECT_THAT(popped, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(LossWindowTest, DoesNotWaitUnlessAsked) {
  const auto device = test::open_device("simulated", {{"max_delay_us", "100000"}});
  plugins::host::Stream stream = device->create_stream();
  plugins::host::Memory memory = device->allocate(8);
  LossWindow window(device, RT_FLOAT32);
  const float loss = 2.5f;
  stream.copy(memory.data(), &loss, sizeof(loss));
  window.push(stream, memory.data(), nullptr, 1);
  std::optional<WeighedLoss> popped;
  while (!(popped = window.pop(false))) usleep(1000);
  EXPECT_EQ(popped->loss, 2.5);
}

TEST(LossMean, IsOverTheLabelsThatCount) {
  LossMean mean;
  EXPECT_TRUE(std::isnan(mean.mean()));
  mean.add(1, 1);
  mean.add(5, 0.25);
  EXPECT_EQ(mean.mean(), 2.25 / 1.25);
  mean.add(NAN, 0);
  mean.add(LossMean{2.25, 1.25, 2});
  EXPECT_EQ(mean.mean(), 4.5 / 2.5);
  EXPECT_EQ(mean.steps, 5);
  LossMean nothing;
  nothing.add(0, 0);
  EXPECT_TRUE(std::isnan(nothing.mean()));
  data::Batch batch;
  batch.global_valid = 1;
  EXPECT_EQ(weight_of_step(batch, 4), 0.25);
  batch.weight = 0;
  EXPECT_EQ(weight_of_step(batch, 4), 0);
}

// ---- reporters

TEST(Reporter, JsonHasTheStableKeys) {
  Metrics m{12, 1, 0.25, 0.1, 1000, std::nullopt, std::nullopt};
  const auto line = nlohmann::json::parse(session::to_json(m));
  std::vector<std::string> keys;
  for (const auto& [key, value] : line.items()) keys.push_back(key);
  EXPECT_THAT(keys,
              testing::UnorderedElementsAre("step", "epoch", "loss", "lr", "samples_per_second"));
  EXPECT_EQ(line["step"], 12);
  EXPECT_EQ(line["epoch"], 2) << "as on the screen";
  EXPECT_EQ(line["loss"], 0.25);
  m.validation_loss = 1;
  m.validation_accuracy = 0.5;
  EXPECT_EQ(nlohmann::json::parse(session::to_json(m))["validation_accuracy"], 0.5);
  EXPECT_EQ(nlohmann::json::parse(session::to_json(m))["validation_loss"], 1);
}

TEST(Reporter, TellsWhatTheDeviceKnows) {
  Metrics m;
  m.device = DeviceMeter(test::open_device("simulated")).read();
  const auto line = nlohmann::json::parse(session::to_json(m));
  EXPECT_EQ(line["device_utilisation"], 42);
  EXPECT_EQ(line["device_power_watts"], 123.456);
  EXPECT_EQ(line["device_memory_bytes"], 0);
  std::ostringstream out;
  session::make_progress_bar(out, std::cerr, 1, 10)->step(m, 1, 10);
  EXPECT_THAT(out.str(), HasSubstr("samples/s  device 42%, 123 W  ETA"));

  m.device = DeviceMeter(test::open_device("reference")).read();
  EXPECT_THAT(session::to_json(m), testing::Not(HasSubstr("device")));
  std::ostringstream plain;
  session::make_progress_bar(plain, std::cerr, 1, 10)->step(m, 1, 10);
  EXPECT_THAT(plain.str(), HasSubstr("samples/s  ETA"));
}

TEST(Reporter, JsonOfANanIsStillJson) {
  Metrics m;
  m.loss = NAN;
  EXPECT_TRUE(nlohmann::json::parse(session::to_json(m))["loss"].is_null());
}

TEST(Reporter, TheBarShowsTheRunAndCleansUp) {
  std::ostringstream out;
  {
    const auto bar = session::make_progress_bar(out, std::cerr, 3, 300);
    bar->step({50, 0, 0.5, 0.1, 2000, std::nullopt, std::nullopt}, 50, 100);
    bar->line({100, 0, 0.25, 0.1, 2000, 0.5, 0.875});
  }
  EXPECT_THAT(out.str(), HasSubstr("epoch 1/3 [============            ] 50/100  loss 0.5000"));
  EXPECT_THAT(out.str(), HasSubstr("ETA"));
  EXPECT_THAT(out.str(), HasSubstr("accuracy 0.8750"));
}

TEST(Reporter, TheTableLosesTheRowsThatAreMadeAgain) {
  test::TemporaryFolder folder;
  const std::string file = (folder.path() / "metrics.csv").string();
  const auto table = session::make_csv(file, 0, std::cerr);
  table->line({5, 0, 0.5, 0.1, 100, std::nullopt, std::nullopt});
  table->line({10, 1, 0.25, 0.1, 100, 0.125, 0.75});
  session::make_csv(file, 5, std::cerr)->line({6, 0, 0.1, 1e-5, 100, std::nullopt, std::nullopt});
  EXPECT_EQ(test::read_text(file),
            "step,epoch,loss,lr,samples_per_second,validation_loss,validation_accuracy\n"
            "5,1,0.5,0.1,100.0,,\n6,1,0.1,1e-05,100.0,,\n");
}

TEST(Reporter, MetricsFileAppends) {
  test::TemporaryFolder folder;
  const std::string file = (folder.path() / "metrics.jsonl").string();
  session::make_metrics_file(file, std::cerr)->line({1, 0, 1, 1, 1, std::nullopt, std::nullopt});
  session::make_metrics_file(file, std::cerr)->line({2, 0, 1, 1, 1, std::nullopt, std::nullopt});
  std::istringstream lines(test::read_text(file));
  std::string line;
  for (int step = 1; step <= 2; ++step) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_EQ(nlohmann::json::parse(line)["step"], step);
  }
  EXPECT_THAT(
      test::message_of<DataError>([&] { session::make_metrics_file(file + "/below", std::cerr); }),
      HasSubstr("job.dump_folder"));
}

// A stream without space, like a full disk.
class FullDisk : public std::streambuf {
 protected:
  int overflow(int) override { return traits_type::eof(); }
};

TEST(Reporter, ProgressThatCannotBeWrittenIsSaidOnceAndAtTheEnd) {
  const Metrics metrics{1, 0, 1, 1, 1, std::nullopt, std::nullopt};
  FullDisk disk;
  std::ostream full(&disk);
  for (const bool bar : {false, true}) {
    std::ostringstream warnings;
    const auto reporter = bar ? session::make_progress_bar(full, warnings, 1, 1)
                              : session::make_json_lines(full, warnings);
    reporter->finish();
    Metrics validated = metrics;
    validated.validation_loss = 1;
    for (int i = 0; i < 3; ++i) reporter->line(validated);
    EXPECT_EQ(warnings.str(),
              "warning: the progress of training (standard output) could not be written; training "
              "goes on without it\n");
    EXPECT_THAT(test::message_of<DataError>([&] { reporter->finish(); }),
                HasSubstr("could not be written; part of it is missing"));
  }
}

TEST(Reporter, AMetricsFileThatCannotBeWrittenIsSaidOnceAndAtTheEnd) {
  const Metrics metrics{1, 0, 1, 1, 1, std::nullopt, std::nullopt};
  std::ostringstream warnings;
  std::vector<std::unique_ptr<Reporter>> list;
  list.push_back(session::make_metrics_file("/dev/full", warnings));
  list.push_back(session::make_tee({}));
  const auto reporter = session::make_tee(std::move(list));
  for (int i = 0; i < 3; ++i) reporter->line(metrics);
  EXPECT_EQ(warnings.str(),
            "warning: /dev/full could not be written: No space left on device; training goes on "
            "without it\n");
  EXPECT_THAT(test::message_of<DataError>([&] { reporter->finish(); }),
              HasSubstr("/dev/full could not be written: No space left on device"));
}

// ---- the loop

class Recorder : public Reporter {
 public:
  void note(const std::string& text) override { notes.push_back(text); }
  void step(const Metrics& m, int64_t, int64_t) override { rates.push_back(m.lr); }
  void line(const Metrics& m) override { lines.push_back(m); }
  std::vector<std::string> notes;
  std::vector<double> rates;
  void validation(const Metrics&, int64_t batch, int64_t) override { validations.push_back(batch); }

  std::vector<Metrics> lines;
  std::vector<int64_t> validations;
};

RunResult train_job(Job& job, Recorder& recorder, const RunOptions& options = {}) {
  return run_training(job.config, job.data, *job.programs, *job.trainer, recorder, options);
}

TEST(Run, EpochsStepsAndValidation) {
  // 16 samples in batches of 8 give two steps an epoch; 4 samples are for validation.
  Job job(kTiny, "reference",
          {{"training.epochs", "3"},
           {"dataset.validation_split", "0.2"},
           {"metrics.log_every_steps", "2"},
           {"lr_scheduler.name", "step"},
           {"lr_scheduler.gamma", "0.5"}});
  Recorder recorder;
  const RunResult result = train_job(job, recorder);
  EXPECT_EQ(result.steps, 6);
  EXPECT_EQ(result.signal, 0);
  ASSERT_TRUE(result.validation);
  EXPECT_EQ(result.validation->samples, 4);
  EXPECT_THAT(recorder.rates, ElementsAre(0.1, 0.1, 0.05, 0.05, 0.025, 0.025));
  std::vector<int64_t> validated;
  for (const Metrics& m : recorder.lines) {
    EXPECT_GT(m.loss, 0) << "step " << m.step;
    if (m.validation_loss) validated.push_back(m.step);
  }
  EXPECT_THAT(validated, ElementsAre(2, 4, 6));
  EXPECT_EQ(recorder.lines.back().validation_loss, result.validation->loss);
}

// 16 samples of training in batches of 8, and 4 of validation, in one batch.
TEST(Run, AStepHasOneLineAndTheLossOfAnUnfinishedEpochIsKnown) {
  Job job(kTiny, "reference",
          {{"training.epochs", "3"},
           {"dataset.validation_split", "0.2"},
           {"metrics.log_every_steps", "1"}});
  Recorder recorder;
  RunOptions options;
  options.max_steps = 5;
  const RunResult result =
      run_training(job.config, job.data, *job.programs, *job.trainer, recorder, options);
  std::vector<int64_t> steps;
  for (const Metrics& m : recorder.lines) steps.push_back(m.step);
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_TRUE(recorder.lines[3].validation_loss);
  EXPECT_FALSE(recorder.lines[4].validation_loss) << "the run is only cut short";
  EXPECT_THAT(recorder.validations, ElementsAre(0, 0)) << "the only batch, after steps 2 and 4";
  ASSERT_TRUE(result.unfinished_loss);
  EXPECT_EQ(*result.unfinished_loss, recorder.lines.back().loss);
  EXPECT_EQ(result.unfinished_after, 4);
  Job whole(kTiny, "reference", {{"training.epochs", "1"}});
  EXPECT_FALSE(train_job(whole, recorder).unfinished_loss);
}

TEST(Run, EveryLineHasALossWhereTheDeviceIsBehind) {
  Job job(kTiny, "simulated", {{"training.steps", "4"}, {"metrics.log_every_steps", "1"}});
  Recorder recorder;
  train_job(job, recorder);
  EXPECT_GE(recorder.lines.size(), 4u);
  for (const Metrics& m : recorder.lines) EXPECT_GT(m.loss, 0) << "step " << m.step;
}

TEST(Run, MaxStepsAndStepsOfTheConfiguration) {
  Job job(kTiny, "reference", {{"training.steps", "100"}});
  Recorder recorder;
  RunOptions options;
  options.max_steps = 5;
  EXPECT_EQ(train_job(job, recorder, options).steps, 5);
  EXPECT_EQ(Schedule(job.config, 3).total_steps(), 100);
}

TEST(Run, StopsAtASignal) {
  Job job(kTiny, "reference", {{"training.steps", "1000"}});
  Recorder recorder;
  RunOptions options;
  options.stop = [&] { return job.trainer->steps_done() == 4 ? SIGTERM : 0; };
  const RunResult result = train_job(job, recorder, options);
  EXPECT_EQ(result.signal, SIGTERM);
  EXPECT_EQ(result.steps, 4);
}

TEST(Run, ALossThatIsNoNumberIsAnErrorOrAWarning) {
  const std::vector<config::Override> diverging = {
      {"optimizer.lr", "1e200"}, {"optimizer.weight_decay", "1"}, {"training.steps", "20"}};
  Job job(kTiny, "reference", diverging);
  Recorder recorder;
  const std::string message = test::message_of<NumericError>([&] { train_job(job, recorder); });
  EXPECT_THAT(message, HasSubstr("the loss of step"));
  EXPECT_THAT(message, HasSubstr("optimizer.lr"));
  auto warned = diverging;
  warned.push_back({"debug.nan", "warn"});
  Job other(kTiny, "reference", warned);
  EXPECT_EQ(train_job(other, recorder).steps, 20);
  EXPECT_THAT(recorder.notes, ElementsAre(HasSubstr("warning: the loss of step")));
}

// 3e38 is finite, but its square overflows float32.
TEST(Run, AValidationLossThatIsNoNumberEndsTheRun) {
  test::TemporaryFolder folder;
  const std::string train = folder.write("train.csv", "x,y\n1,1\n2,2\n3,3\n4,4\n");
  const std::string validation = folder.write("validation.csv", "x,y\n3e38,1\n");
  const std::string job = R"(
[model]
input = [1]
layers = [ { type = "linear", features = 1 } ]
[dataset]
format = "csv"
task = "regression"
target = "y"
path = ")" + train + R"("
validation_path = ")" + validation +
                          R"("
[training]
global_batch_size = 2
epochs = 3
)";
  Job stopping(job, "reference", {{"optimizer.lr", "1e-3"}});
  Recorder recorder;
  const RunResult result = train_job(stopping, recorder);
  EXPECT_EQ(result.steps, 2) << "the first epoch's end";
  EXPECT_THAT(result.numeric_error, HasSubstr("the validation loss after step 2 is inf"));
  EXPECT_EQ(first_not_finite(stopping.trainer->weights()), "");
  Job warned(job, "reference", {{"optimizer.lr", "1e-3"}, {"debug.nan", "warn"}});
  const RunResult other = train_job(warned, recorder);
  EXPECT_EQ(other.steps, 6);
  EXPECT_EQ(other.numeric_error, "");
  EXPECT_THAT(recorder.notes, testing::Contains(HasSubstr("warning: the validation loss")));
}

// Waits until the thread that receives signals has seen one.
int first_of(const StopSignal& stop) {
  for (int i = 0; i < 2000 && stop.pending() == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return stop.pending();
}

// Runs in a process of its own, because the other threads of the test do not block the signals.
TEST(StopSignalTest, TheFirstIsPendingAndTheSecondEndsTheProcess) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto twice = [&] {
      const StopSignal stop({"saving", "gone", "asked"});
      if (stop.pending() != 0) _exit(1);
      kill(getpid(), signal);
      if (first_of(stop) != signal) _exit(2);
      kill(getpid(), signal);
      for (;;) pause();  // this code never asks for the signal
    };
    const std::string name = std::string("SIG") + sigabbrev_np(signal);
    EXPECT_EXIT(twice(), testing::ExitedWithCode(128 + signal),
                name + ": saving\n+" + name + ": gone\n");
  }
}

TEST(StopSignalTest, QuestionsAreCountedAndStopNothing) {
  const auto ask = [] {
    const StopSignal stop({"saving", "gone", "asked"});
    for (int i = 1; i <= 2; ++i) {
      kill(getpid(), SIGUSR2);
      while (stop.questions() < i) std::this_thread::yield();
    }
    _exit(stop.pending() == 0 && !stop.after_checkpoint() ? 3 : 1);
  };
  EXPECT_EXIT(ask(), testing::ExitedWithCode(3), "SIGUSR2: asked\n.*SIGUSR2: asked");
}

TEST(StopSignalTest, NothingIsSaidOnceEverythingIsSaved) {
  const auto after_saving = [](bool saved_before_the_first) {
    StopSignal stop({"saving", "gone", "asked"});
    if (saved_before_the_first) stop.everything_is_saved();
    kill(getpid(), SIGHUP);
    if (first_of(stop) != SIGHUP) _exit(2);
    stop.everything_is_saved();
    kill(getpid(), SIGTERM);
    for (;;) pause();
  };
  EXPECT_EXIT(after_saving(true), testing::ExitedWithCode(128 + SIGHUP), testing::StrEq(""));
  EXPECT_EXIT(after_saving(false), testing::ExitedWithCode(128 + SIGHUP),
              testing::AllOf(HasSubstr("saving"), testing::Not(HasSubstr("gone"))));
}

// A device that has not answered for 11 s, and took `longest` for an answer before.
void stop_beside_silence(std::chrono::seconds longest) {
  const StopSignal stop({"saving", "gone", "asked"}, [=] {
    return std::optional(plugins::host::Silence{std::chrono::seconds(11), longest, "x stream 1"});
  });
  kill(getpid(), SIGTERM);
  std::this_thread::sleep_for(std::chrono::seconds(longest.count() > 0 ? 2 : 60));
  _exit(0);
}

TEST(StopSignalTest, ADeviceThatDoesNotAnswerEndsTheProcess) {
  EXPECT_EXIT(stop_beside_silence(std::chrono::seconds(0)), testing::ExitedWithCode(3),
              "SIGTERM: saving\nSIGTERM: the device has not answered for 11 s: x stream 1; the "
              "program ends without saving");
}

TEST(StopSignalTest, OneThatTakesThatLongAsAlwaysDoesNot) {
  EXPECT_EXIT(stop_beside_silence(std::chrono::seconds(6)), testing::ExitedWithCode(0), "saving");
}

TEST(StopSignalTest, WhatWasIgnoredStaysIgnored) {
  const auto ignored = [] {
    signal(SIGHUP, SIG_IGN);
    const StopSignal stop;
    for (int i = 0; i < 2; ++i) kill(getpid(), SIGHUP);
    kill(getpid(), SIGTERM);
    _exit(first_of(stop) == SIGTERM ? 0 : 1);
  };
  EXPECT_EXIT(ignored(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace runtime::train
