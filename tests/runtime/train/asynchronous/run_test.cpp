// Whole asynchronous runs, with ranks that are threads.
#include "runtime/train/asynchronous/run.h"

#include <gmock/gmock.h>

#include <csignal>

#include "runtime/error.h"
#include "runtime/step/ranks.h"
#include "runtime/train/rank/step_programs.h"
#include "runtime/train/run/loop.h"
#include "tests/runtime/exec/local_ranks.h"
#include "tests/runtime/train/job.h"
#include "tests/runtime/train/settings.h"

namespace runtime::train {
namespace {

using exec::LocalRank;
using testing::Each;
using testing::HasSubstr;

class Lines : public Reporter {
 public:
  void note(const std::string&) override {}
  void step(const Metrics&, int64_t, int64_t) override {}
  void line(const Metrics& m) override { lines.push_back(m); }
  std::vector<Metrics> lines;
};

struct Outcome {
  std::vector<std::string> errors;  // by rank, as all members except `lines`
  std::vector<RunResult> results;
  std::vector<data::TensorFile> weights;
  std::vector<Metrics> lines;  // of rank 0
};

struct Setting {
  int ranks = 2;
  Settings overrides = {};
  std::function<int(int rank)> stop = nullptr;
  std::string slow_rank = "reference";  // the device of the last rank
};

// 160 samples in batches of 8 give 20 steps an epoch; 32 samples are for validation.
Outcome train(const Setting& setting) {
  Settings overrides = {{"dataset.samples", "192"},
                        {"dataset.prefetch", "2"},
                        {"dataset.validation_split", "0.166"},
                        {"training.epochs", "4"}};
  overrides.insert(overrides.end(), setting.overrides.begin(), setting.overrides.end());
  Outcome outcome;
  outcome.results.resize(setting.ranks);
  outcome.weights.resize(setting.ranks);
  outcome.errors = exec::on_local_ranks(setting.ranks, [&](LocalRank& r) {
    const config::Config config = test::parse(kTiny, overrides);
    const data::DatasetPair data = open_data(config, nullptr);
    exec::CompileOptions options{{.tune = exec::Tune::kOff}};
    options.collectives = &r.collectives;
    const bool last = r.rank == r.world_size - 1;
    const auto programs = std::make_shared<StepPrograms>(
        RankSetup(config, data.train->spec(),
                  test::open_device(last ? setting.slow_rank : "reference"), options));
    Trainer trainer(programs);
    Lines reporter;
    RunOptions run;
    if (setting.stop) run.stop = [&] { return setting.stop(r.rank); };
    outcome.results[r.rank] = run_training(config, data, *programs, trainer, reporter, run);
    outcome.weights[r.rank] = trainer.weights();
    if (r.rank == 0) outcome.lines = reporter.lines;
  });
  return outcome;
}

Settings asynchronous(const std::string& staleness) {
  return {{"parallelism.update", "\"asynchronous\""}, {"parallelism.max_staleness", staleness}};
}

void expect_trained(const Outcome& outcome, int64_t steps, double accuracy) {
  ASSERT_THAT(outcome.errors, Each(""));
  for (const RunResult& result : outcome.results) {
    EXPECT_EQ(result.steps, steps);
    EXPECT_EQ(result.signal, 0);
    ASSERT_TRUE(result.validation);
    EXPECT_GE(result.validation->accuracy, accuracy);
    EXPECT_EQ(result.validation->loss, outcome.results[0].validation->loss);
  }
  for (const data::TensorFile& weights : outcome.weights)
    EXPECT_TRUE(same_bits(weights, outcome.weights[0]));
}

TEST(Asynchronous, IsForSeveralRanksAndAStalenessAboveZero) {
  config::Config c;
  c.parallelism.update = "asynchronous";
  EXPECT_FALSE(step::is_asynchronous(c, 2));
  c.parallelism.max_staleness = 1;
  EXPECT_TRUE(step::is_asynchronous(c, 2));
  EXPECT_FALSE(step::is_asynchronous(c, 1));
  c.parallelism.update = "synchronous";
  EXPECT_FALSE(step::is_asynchronous(c, 2));
}

TEST(Asynchronous, StalenessZeroIsSynchronousBitForBit) {
  const Outcome synchronous = train({2}), zero = train({2, asynchronous("0")});
  expect_trained(synchronous, 80, 0.9);
  expect_trained(zero, 80, 0.9);
  EXPECT_TRUE(same_bits(zero.weights[0], synchronous.weights[0]));
  EXPECT_FALSE(same_bits(train({2, asynchronous("1")}).weights[0], synchronous.weights[0]))
      << "the test compares nothing";
}

TEST(Asynchronous, Learns) {
  for (const int ranks : {2, 3}) {
    const Outcome outcome = train({ranks, asynchronous("3")});
    expect_trained(outcome, 80, 0.9);
    ASSERT_FALSE(outcome.lines.empty());
    EXPECT_EQ(outcome.lines.back().step, 80);
    EXPECT_EQ(outcome.lines.back().epoch, 3);
    EXPECT_LT(outcome.lines.back().loss, 0.5 * outcome.lines.front().loss);
  }
}

// One rank has a slow device with a queue, whose memory the host cannot read.
TEST(Asynchronous, LearnsBesideASlowAccelerator) {
  expect_trained(train({2, asynchronous("4"), nullptr, "simulated"}), 80, 0.9);
}

TEST(Asynchronous, LearnsWithAdamWAndMicroSteps) {
  expect_trained(train({3, asynchronous("2") + Settings{{"optimizer.name", "\"adamw\""},
                                                        {"optimizer.lr", "0.02"},
                                                        {"training.micro_batch_size", "2"}}}),
                 80, 0.9);
}

// Batches of 7 on 3 ranks, the last batch of 6; without prefetch.
TEST(Asynchronous, ItemsOfDifferentSizes) {
  expect_trained(train({3, asynchronous("2") + Settings{{"training.global_batch_size", "7"},
                                                        {"dataset.prefetch", "0"},
                                                        {"debug.check_replicas_every", "1"}}}),
                 4 * 23, 0.9);
}

TEST(Asynchronous, StopsAllRanksAtASignal) {
  std::atomic<int> asked = 0;
  const Outcome outcome =
      train({3, asynchronous("2") + Settings{{"training.epochs", "100000"}},
             [&](int rank) { return rank == 1 && ++asked >= 5 ? SIGTERM : 0; }});
  ASSERT_THAT(outcome.errors, Each(""));
  for (const RunResult& result : outcome.results) {
    EXPECT_EQ(result.signal, SIGTERM);
    EXPECT_EQ(result.steps, outcome.results[0].steps);
    EXPECT_LT(result.steps, 1'000'000);
  }
  for (const data::TensorFile& weights : outcome.weights)
    EXPECT_TRUE(same_bits(weights, outcome.weights[0]));
}

TEST(Asynchronous, ALossThatIsNoNumberEndsTheJob) {
  const Outcome outcome = train({2, asynchronous("2") + Settings{{"optimizer.lr", "1e200"},
                                                                 {"optimizer.weight_decay", "1"}}});
  for (const std::string& error : outcome.errors) EXPECT_THAT(error, HasSubstr("the loss of step"));
}

}  // namespace
}  // namespace runtime::train
