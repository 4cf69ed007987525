// Asynchronous runs that are saved and go on, with ranks that are threads.
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <mutex>

#include "runtime/data/fingerprint.h"
#include "runtime/step/ranks.h"
#include "runtime/train/asynchronous/run.h"
#include "runtime/train/checkpoint/rank_state.h"
#include "runtime/train/run/loop.h"
#include "tests/runtime/exec/local_ranks.h"
#include "tests/runtime/train/job.h"
#include "tests/runtime/train/settings.h"

namespace runtime::train {
namespace {

namespace fs = std::filesystem;
using exec::LocalRank;
using testing::Each;

// A data set that counts how often each sample was read, by all ranks.
class Recorder : public data::Dataset {
 public:
  Recorder(std::shared_ptr<const data::Dataset> data, std::vector<int>& reads, std::mutex& mutex)
      : data_(std::move(data)), reads_(reads), mutex_(mutex) {}
  const data::SampleSpec& spec() const override { return data_->spec(); }
  int64_t size() const override { return data_->size(); }
  void read_features(int64_t index, float* out) const override {
    data_->read_features(index, out);
    const std::lock_guard lock(mutex_);
    ++reads_[index];
  }
  int32_t label(int64_t index) const override { return data_->label(index); }
  void read_targets(int64_t index, float* out) const override { data_->read_targets(index, out); }
  std::string description() const override { return data_->description(); }

 private:
  std::shared_ptr<const data::Dataset> data_;
  std::vector<int>& reads_;
  std::mutex& mutex_;
};

class Quiet : public Reporter {
 public:
  void note(const std::string&) override {}
  void step(const Metrics&, int64_t, int64_t) override {}
  void line(const Metrics&) override {}
};

// One rank of a job.
struct RankJob {
  LocalRank& rank;
  config::Config config;
  data::DatasetPair data;
  std::shared_ptr<StepPrograms> programs;
  Trainer trainer;

  SaverOptions saver(const fs::path& folder) const {
    const auto on_main = [this](const char*, const std::function<void()>& work) {
      if (rank.rank == 0) work();
      double all = 0;
      rank.collectives.all_reduce(&all, 1, RT_SUM);
    };
    return {folder, {}, config::to_toml(config), true, on_main, [](const std::string&) {}};
  }
};

// 160 samples in batches of 8 give 20 steps an epoch.
const Settings kData = {{"dataset.samples", "160"},
                        {"dataset.prefetch", "2"},
                        {"training.epochs", "2"},
                        {"checkpoint.interval_minutes", "0"},
                        {"checkpoint.keep_latest", "0"}};
const Settings kAsynchronous = {{"parallelism.update", "\"asynchronous\""},
                                {"parallelism.max_staleness", "2"}};

void on_ranks(int count, const Settings& overrides, const std::function<void(RankJob&)>& work) {
  const auto errors = exec::on_local_ranks(count, [&](LocalRank& r) {
    const config::Config config = test::parse(kTiny, kData + overrides);
    const data::DatasetPair data = open_data(config, nullptr);
    exec::CompileOptions options{{.tune = exec::Tune::kOff}};
    options.collectives = &r.collectives;
    const auto programs = std::make_shared<StepPrograms>(
        RankSetup(config, data.train->spec(), test::open_device("reference"), options));
    RankJob job{r, config, data, programs, Trainer(programs)};
    work(job);
  });
  EXPECT_THAT(errors, Each(""));
}

// Trains from a checkpoint (empty: from the beginning) to step `most`, or until `stop` returns a
// signal. Adds to `reads`. Returns the step that was reached.
struct Part {
  int ranks = 2;
  fs::path from = {};
  int64_t most = 1000;
  std::function<int(int rank)> stop = nullptr;
};
RunResult train(const Part& part, const Settings& overrides, const fs::path& folder,
                std::vector<int>& reads) {
  std::mutex mutex;
  RunResult result;
  on_ranks(part.ranks, overrides, [&](RankJob& job) {
    std::optional<Resumed> resumed;
    if (!part.from.empty()) {
      resumed = open_checkpoint(part.from);
      check_resumable(*resumed, job.config, *job.data.train);
      restore(*resumed, job.programs->rank_model());
      job.trainer.set_steps_done(resumed->manifest.state.step);
    }
    RunOptions options;
    options.max_steps = part.most;
    if (part.stop) options.stop = [&] { return part.stop(job.rank.rank); };
    options.checkpoints = job.saver(folder);
    options.resumed = resumed ? &*resumed : nullptr;
    data::DatasetPair data = job.data;
    data.train = std::make_shared<Recorder>(data.train, reads, mutex);
    Quiet reporter;
    const RunResult r =
        run_training(job.config, data, *job.programs, job.trainer, reporter, options);
    EXPECT_EQ(r.checkpoint_error, "");
    if (job.rank.rank == 0) result = r;
  });
  return result;
}

// How often one run of a rank reads each sample for the fingerprint of the data.
std::vector<int> fingerprint_reads() {
  std::vector<int> reads(160);
  std::mutex mutex;
  data::fingerprint(Recorder(open_data(test::parse(kTiny, kData), nullptr).train, reads, mutex));
  return reads;
}

// Expects that `ranks` (of all runs together) have used each sample `times`.
void expect_uses(const std::vector<int>& reads, int ranks, int times) {
  const std::vector<int> other = fingerprint_reads();
  for (size_t i = 0; i < reads.size(); ++i)
    EXPECT_EQ(reads[i] - ranks * other[i], times) << "sample " << i;
}

std::vector<int64_t> saved_steps(const fs::path& folder) {
  std::vector<int64_t> steps;
  for (const fs::path& path : list_checkpoints(folder))
    steps.push_back(step_of_name(path.filename().string()));
  std::sort(steps.begin(), steps.end());
  return steps;
}

TEST(AsynchronousCheckpoints, EachSampleOnceOverBothParts) {
  for (const auto& [before, after] : {std::pair{2, 2}, {4, 4}, {4, 2}, {2, 3}}) {
    test::TemporaryFolder folder;
    std::vector<int> reads(160);
    const RunResult first =
        train({.ranks = before, .most = 33}, kAsynchronous, folder.path(), reads);
    EXPECT_EQ(first.steps, 33);
    const RunResult rest = train({.ranks = after, .from = folder.path() / checkpoint_name(33)},
                                 kAsynchronous, folder.path(), reads);
    EXPECT_EQ(rest.steps, 40);
    expect_uses(reads, before + after, 2);
  }
}

// A synchronous loader that prefetches would read samples that are not used.
TEST(AsynchronousCheckpoints, EachSampleOnceInPartsOfWhichOneIsSynchronous) {
  const Settings synchronous = {{"dataset.prefetch", "0"}};
  for (const bool first_is : {true, false}) {
    test::TemporaryFolder folder;
    std::vector<int> reads(160);
    train({.ranks = 2, .most = 33}, first_is ? kAsynchronous : synchronous, folder.path(), reads);
    const RunResult rest = train({.ranks = 3, .from = folder.path() / checkpoint_name(33)},
                                 first_is ? synchronous : kAsynchronous, folder.path(), reads);
    EXPECT_EQ(rest.steps, 40);
    expect_uses(reads, 5, 2);
  }
}

TEST(AsynchronousCheckpoints, ASignalEndsAWholeStepThatIsSaved) {
  for (const int ranks : {2, 4}) {
    test::TemporaryFolder folder;
    std::vector<int> reads(160);
    std::atomic<int> asked = 0;
    const Part first = {.ranks = ranks,
                        .stop = [&](int rank) { return rank == 1 && ++asked >= 3 ? SIGTERM : 0; }};
    const RunResult stopped = train(first, kAsynchronous, folder.path(), reads);
    EXPECT_EQ(stopped.signal, SIGTERM);
    EXPECT_LT(stopped.steps, 40);
    EXPECT_THAT(saved_steps(folder.path()), testing::ElementsAre(stopped.steps));
    train({.ranks = ranks, .from = folder.path() / checkpoint_name(stopped.steps)}, kAsynchronous,
          folder.path(), reads);
    expect_uses(reads, 2 * ranks, 2);
  }
}

TEST(AsynchronousCheckpoints, AreSavedEverySoManyStepsAndAtTheEnd) {
  test::TemporaryFolder folder;
  std::vector<int> reads(160);
  train({}, kAsynchronous + Settings{{"checkpoint.interval_steps", "15"}}, folder.path(), reads);
  const auto saved = saved_steps(folder.path());
  ASSERT_GE(saved.size(), 2u);
  EXPECT_EQ(saved.front(), 15);
  EXPECT_EQ(saved.back(), 40);
  EXPECT_GE(saved[1], 30);  // it may be put off while the first one is being written
  expect_uses(reads, 2, 2);
}

// The interval is over after each work item of rank 0, but nothing is saved while the writer is
// busy.
TEST(AsynchronousCheckpoints, AreSavedByTheClock) {
  test::TemporaryFolder folder;
  std::vector<int> reads(160);
  train({.ranks = 3}, kAsynchronous + Settings{{"checkpoint.interval_minutes", "1e-9"}},
        folder.path(), reads);
  EXPECT_GT(saved_steps(folder.path()).size(), 1u);
  EXPECT_LT(saved_steps(folder.path()).front(), 40);
  EXPECT_EQ(saved_steps(folder.path()).back(), 40);
  expect_uses(reads, 3, 2);
}

// All tensors of a checkpoint, whole.
data::TensorFile whole(const fs::path& checkpoint) {
  return join_checkpoint(checkpoint, read_manifest(checkpoint));
}

// Resumes on some ranks, and saves at once what they have.
data::TensorFile saved_again(const fs::path& from, int ranks, const Settings& overrides) {
  test::TemporaryFolder folder;
  on_ranks(ranks, overrides, [&](RankJob& job) {
    const Resumed resumed = open_checkpoint(from);
    restore(resumed, job.programs->rank_model());
    job.trainer.set_steps_done(resumed.manifest.state.step);
    std::optional<Asynchronous> run;
    if (step::is_asynchronous(job.config, ranks))
      run.emplace(job.config, job.data.train, *job.programs, job.trainer, &resumed);
    EXPECT_EQ(job.trainer.steps_done(), 25);
    if (run) {
      EXPECT_EQ(run->updates(), 25 * ranks);
    }
    Checkpoints checkpoints(job.config, job.programs->rank_model(), *job.data.train, 20,
                            job.saver(folder.path()), nullptr);
    job.programs->setup().maximum(
        {0});  // rank 0 has removed what other runs have left in the folder
    SavedState state;
    state.step = job.trainer.steps_done();
    checkpoints.save(state);
    checkpoints.finish();
    if (run) run->close();
  });
  return whole(folder.path() / checkpoint_name(25));
}

TEST(AsynchronousCheckpoints, AreLoadedBitForBitByAnyNumberOfRanks) {
  for (const Settings& optimizer :
       {Settings{{"optimizer.name", "adamw"}}, Settings{{"optimizer.momentum", "0.9"}}}) {
    for (const Settings& update : {kAsynchronous, Settings{}}) {
      test::TemporaryFolder folder;
      std::vector<int> reads(160);
      train({.ranks = 4, .most = 25}, update + optimizer, folder.path(), reads);
      const fs::path saved = folder.path() / checkpoint_name(25);
      const data::TensorFile expected = whole(saved);
      EXPECT_GT(expected.tensors.size(), 4u) << "no optimizer state";
      for (const auto& [name, tensor] : expected.tensors)
        EXPECT_THAT(numbers(tensor), testing::Contains(testing::Ne(0.0))) << name;
      for (const int ranks : {2, 3, 4}) {
        EXPECT_TRUE(same_bits(saved_again(saved, ranks, kAsynchronous + optimizer), expected));
        EXPECT_TRUE(same_bits(saved_again(saved, ranks, optimizer), expected));
      }
      EXPECT_TRUE(same_bits(saved_again(saved, 1, kAsynchronous + optimizer), expected));
    }
  }
}

// With weight decay the loss comes to rest, but for the noise of the batches.
TEST(AsynchronousCheckpoints, GiveTheWeightsOfTheBestValidation) {
  test::TemporaryFolder folder;
  const Settings overrides = kAsynchronous + Settings{{"dataset.validation_split", "0.2"},
                                                      {"training.epochs", "200"},
                                                      {"optimizer.lr", "0.5"},
                                                      {"optimizer.weight_decay", "0.1"},
                                                      {"checkpoint.keep_best", "1"},
                                                      {"early_stopping.patience", "2"},
                                                      {"early_stopping.restore_best", "true"}};
  std::vector<data::TensorFile> weights(2);
  on_ranks(2, overrides, [&](RankJob& job) {
    RunOptions options;
    options.checkpoints = job.saver(folder.path());
    options.checkpoints.keep = {.best = 1};
    Quiet reporter;
    const RunResult r =
        run_training(job.config, job.data, *job.programs, job.trainer, reporter, options);
    EXPECT_TRUE(r.stopped_early);
    ASSERT_TRUE(r.best);
    EXPECT_EQ(r.restored_step, r.best->step);
    weights[job.rank.rank] = job.trainer.weights();
  });
  const fs::path best = best_checkpoint(folder.path(), {.best = 1});
  ASSERT_NE(best, list_checkpoints(folder.path())[0]) << "the last one is the best";
  Job job(kTiny, "reference");
  restore(open_checkpoint(best), job.programs->rank_model());
  EXPECT_THAT(weights, Each(testing::Truly([&](const data::TensorFile& file) {
                return same_bits(file, job.trainer->weights());
              })));
}

// On one rank steps are the synchronous ones.
TEST(AsynchronousCheckpoints, OneRankGoesOnWithTheSameBits) {
  test::TemporaryFolder folder;
  std::vector<int> reads(160);
  const Settings overrides = kAsynchronous + Settings{{"optimizer.name", "adamw"}};
  train({.ranks = 1}, overrides, folder.path() / "whole", reads);
  train({.ranks = 1, .most = 25}, overrides, folder.path() / "parts", reads);
  train({.ranks = 1, .from = folder.path() / "parts" / checkpoint_name(25)}, overrides,
        folder.path() / "parts", reads);
  EXPECT_TRUE(same_bits(whole(folder.path() / "parts" / checkpoint_name(40)),
                        whole(folder.path() / "whole" / checkpoint_name(40))));
}

}  // namespace
}  // namespace runtime::train
