// Saves and restores jobs of one rank; tests/end_to_end/resume does so with several.
#include "runtime/train/checkpoint/checkpoints.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "runtime/error.h"
#include "runtime/session/reports/screen.h"
#include "runtime/train/checkpoint/find.h"
#include "runtime/train/checkpoint/kept_state.h"
#include "runtime/train/run/loop.h"
#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kLayers = R"(
[model]
input = [3, 6, 6]
layers = [
  { type = "conv2d", channels = 4, kernel = 3, padding = 1 },
  { type = "batch_norm", activation = "tanh" },
  { type = "flatten" },
  { type = "dropout", probability = 0.2 },
  { type = "linear", features = 3 },
]
[dataset]
name = "synthetic"
samples = 41
classes = 3
prefetch = 0
last_batch = "keep"
[training]
global_batch_size = 8
epochs = 3
[checkpoint]
interval_minutes = 0
interval_steps = 4
keep_latest = 0
)";

// Done is what a run has said and done.
struct Done {
  RunResult result;
  std::vector<std::string> notes;
  std::vector<std::string> lines;
  data::TensorFile weights;
};

std::ptrdiff_t threads() {
  return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
}

// Holds up the run behind each step until no checkpoint is being written, since one that is due
// would else be put off (put_off_test.cpp has that): until there are only the threads of before,
// and `more` of a device.
class Lines : public Reporter {
 public:
  Lines(Done& done, std::ptrdiff_t more) : done_(done), threads_(threads() + more) {}
  void note(const std::string& text) override { done_.notes.push_back(text); }
  void step(const Metrics&, int64_t, int64_t) override {
    while (threads() > threads_) std::this_thread::yield();
  }
  void line(const Metrics& metrics) override {
    Metrics m = metrics;
    m.samples_per_second = 0;
    m.epoch_seconds.reset();
    done_.lines.push_back(session::to_json(m));
  }

 private:
  Done& done_;
  const std::ptrdiff_t threads_;
};

SaverOptions saver_options(const config::Config& config, const fs::path& folder, Done& done) {
  return {folder,
          {config.checkpoint.keep_latest, config.checkpoint.keep_best},
          config::to_toml(config),
          true,
          [](const char*, const std::function<void()>& work) { work(); },
          [&done](const std::string& text) { done.notes.push_back(text); }};
}

// Trains to step `most`, or to the end; from a checkpoint if `from` names one.
Done train(const std::string& toml, const std::string& backend, const fs::path& folder,
           const std::vector<config::Override>& overrides = {}, int64_t most = 0,
           const fs::path& from = {}) {
  Done done;
  Job job(toml, backend, overrides);
  std::optional<Resumed> resumed;
  if (!from.empty()) {
    resumed = open_checkpoint(from);
    check_resumable(*resumed, job.config, *job.data.train);
    restore(*resumed, job.programs->rank_model());
    job.trainer->set_steps_done(resumed->manifest.state.step);
  }
  RunOptions options;
  if (most > 0) options.max_steps = most;
  options.checkpoints = saver_options(job.config, folder, done);
  options.resumed = resumed ? &*resumed : nullptr;
  Lines reporter(done, job.programs->setup().device->properties().threads - 1);
  done.result = run_training(job.config, job.data, *job.programs, *job.trainer, reporter, options);
  done.weights = job.trainer->weights();
  return done;
}

struct Way {
  const char* name;
  std::vector<config::Override> overrides;
};
std::ostream& operator<<(std::ostream& to, const Way& way) { return to << way.name; }

class Resuming : public testing::TestWithParam<Way> {};

// Steps 4, 8, 12 and 16 lie inside an epoch of 6 steps, at the end of one, and behind one.
TEST_P(Resuming, EqualsTheUninterruptedRun) {
  test::TemporaryFolder folder;
  const auto& overrides = GetParam().overrides;
  const Done whole = train(kLayers, "reference", folder.path() / "whole", overrides);
  EXPECT_EQ(whole.result.checkpoint_error, "");
  const std::vector<fs::path> checkpoints = list_checkpoints(folder.path() / "whole");
  ASSERT_GE(checkpoints.size(), 3u);
  EXPECT_EQ(step_of_name(checkpoints[0].filename().string()), whole.result.steps);
  for (const fs::path& from : checkpoints) {
    const Done rest = train(kLayers, "reference", folder.path() / "rest", overrides, 0, from);
    EXPECT_TRUE(same_bits(rest.weights, whole.weights)) << from;
    ASSERT_LE(rest.lines.size(), whole.lines.size());
    EXPECT_TRUE(std::equal(rest.lines.rbegin(), rest.lines.rend(), whole.lines.rbegin())) << from;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Resuming,
    testing::Values(
        Way{"sgd", {}},
        Way{"momentum", {{"optimizer.momentum", "0.9"}, {"metrics.log_every_steps", "5"}}},
        Way{"adamw", {{"optimizer.name", "adamw"}, {"training.max_norm", "0.5"}}},
        Way{"float64", {{"training.dtype", "float64"}, {"optimizer.name", "adamw"}}},
        Way{"float16", {{"training.mixed_precision", "f16"}, {"optimizer.name", "adamw"}}},
        Way{"bfloat16", {{"training.mixed_precision", "bf16"}}},
        Way{"frozen", {{"model.freeze", "[\"conv*\"]"}, {"optimizer.momentum", "0.5"}}},
        Way{"cosine", {{"lr_scheduler.name", "cosine"}, {"lr_scheduler.warmup_steps", "3"}}},
        Way{"plateau",
            {{"dataset.validation_split", "0.2"},
             {"validation.every_steps", "2"},
             {"lr_scheduler.name", "plateau"},
             {"lr_scheduler.patience", "0"},
             {"lr_scheduler.threshold", "0.1"},
             {"lr_scheduler.gamma", "0.5"}}},
        Way{"stopped",
            {{"dataset.validation_split", "0.2"},
             {"validation.every_steps", "1"},
             {"optimizer.lr", "0.5"},
             {"early_stopping.patience", "4"},
             {"checkpoint.interval_steps", "2"},
             {"checkpoint.keep_best", "1"},
             {"early_stopping.restore_best", "true"}}},
        Way{"validated",
            {{"dataset.samples", "51"},
             {"dataset.validation_split", "0.2"},
             {"validation.every_steps", "3"}}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(CheckpointsOnDevices, OfOneArePickedUpByAnother) {
  test::TemporaryFolder folder;
  train(kLayers, "cpu", folder.path(), {}, 8);
  const fs::path from = folder.path() / checkpoint_name(8);
  Job here(kLayers, "cpu"), there(kLayers, "reference");
  for (Job* job : {&here, &there}) restore(open_checkpoint(from), job->programs->rank_model());
  EXPECT_TRUE(same_bits(here.trainer->weights(), there.trainer->weights()));
  EXPECT_NEAR(here.step()[0], there.step()[0], 1e-5);
}

TEST(CheckpointsKept, AreTheLatestAndTheBest) {
  test::TemporaryFolder folder;
  const Done done = train(kLayers, "reference", folder.path(),
                          {{"dataset.validation_split", "0.2"},
                           {"validation.every_steps", "1"},
                           {"checkpoint.keep_latest", "1"},
                           {"checkpoint.keep_best", "2"},
                           {"optimizer.lr", "0.5"}});
  std::vector<std::pair<double, int64_t>> losses;
  for (const std::string& line : done.lines) {
    const std::string key = "\"validation_loss\":";
    if (const size_t at = line.find(key); at != std::string::npos)
      losses.emplace_back(std::stod(line.substr(at + key.size())),
                          std::stoll(line.substr(line.find("\"step\":") + 7)));
  }
  std::sort(losses.begin(), losses.end());
  std::set<int64_t> expected = {done.result.steps, losses.at(0).second, losses.at(1).second};
  std::set<int64_t> kept;
  for (const fs::path& path : list_checkpoints(folder.path()))
    kept.insert(step_of_name(path.filename().string()));
  EXPECT_EQ(kept, expected);
}

TEST(CheckpointsKept, GiveTheWeightsOfTheBest) {
  test::TemporaryFolder folder;
  const std::vector<config::Override> overrides = {{"dataset.validation_split", "0.2"},
                                                   {"validation.every_steps", "1"},
                                                   {"training.epochs", "100"},
                                                   {"optimizer.lr", "0.5"},
                                                   {"checkpoint.keep_best", "1"},
                                                   {"early_stopping.patience", "3"},
                                                   {"early_stopping.restore_best", "true"}};
  const Done done = train(kLayers, "reference", folder.path(), overrides);
  EXPECT_TRUE(done.result.stopped_early);
  EXPECT_LT(done.result.steps, 400);
  const fs::path best = best_checkpoint(folder.path(), {.best = 1});
  EXPECT_EQ(step_of_name(best.filename().string()), done.result.steps - 3);
  Job job(kLayers, "reference");
  restore(open_checkpoint(best), job.programs->rank_model());
  EXPECT_TRUE(same_bits(job.trainer->weights(), done.weights));
}

TEST(CheckpointsRefused, OtherTrainingsAreNamed) {
  test::TemporaryFolder folder;
  train(kLayers, "reference", folder.path(), {}, 4);
  const fs::path from = folder.path() / checkpoint_name(4);
  const auto fault = [&](const std::vector<config::Override>& overrides) {
    try {
      train(kLayers, "reference", folder.path() / "other", overrides, 0, from);
      return std::string("accepted");
    } catch (const DataError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(fault({{"training.global_batch_size", "4"}}),
              HasSubstr("training.global_batch_size is 4; in the checkpoint it is 8"));
  EXPECT_THAT(fault({{"debug.seed", "3"}}), HasSubstr("debug.seed is 3"));
  EXPECT_THAT(fault({{"optimizer.name", "adamw"}}), HasSubstr("optimizer.name is \"adamw\""));
  EXPECT_THAT(fault({{"dataset.samples", "40"}}), HasSubstr("the training data have 40 samples"));
  EXPECT_THAT(fault({{"model.dropout", "0.3"}}), HasSubstr("model.dropout"));
  EXPECT_THAT(fault({{"optimizer.momentum", "0.9"}}), HasSubstr("lacks tensor 'momentum/"));
  EXPECT_EQ(fault({{"training.epochs", "4"}, {"optimizer.lr", "0.5"}}), "accepted");
}

TEST(CheckpointsRefused, OtherDifferencesAreNotes) {
  test::TemporaryFolder folder;
  train(kLayers, "reference", folder.path(), {}, 4);
  const Resumed from = open_checkpoint(folder.path() / checkpoint_name(4));
  const Job job(kLayers, "reference", {{"optimizer.lr", "0.5"}, {"metrics.log_every_steps", "1"}});
  EXPECT_THAT(check_resumable(from, job.config, *job.data.train),
              testing::ElementsAre("optimizer.lr is 0.5; in the checkpoint it is 0.01"));
}

// Keys are added from version to version.
TEST(CheckpointsRefused, AKeyThatDidNotExistYetHasItsDefault) {
  test::TemporaryFolder folder;
  train(kLayers, "reference", folder.path(), {}, 4);
  const Resumed from = open_checkpoint(folder.path() / checkpoint_name(4));
  const fs::path file = from.path() / "config.toml";
  std::string text = test::read_text(file);
  const size_t line = text.find("random_resized_crop = ");
  ASSERT_NE(line, std::string::npos);
  text.erase(line, text.find('\n', line) + 1 - line);
  std::ofstream(file) << text;
  const Job job(kLayers, "reference");
  EXPECT_THAT(check_resumable(from, job.config, *job.data.train), testing::IsEmpty());
  const Job other(kLayers, "reference", {{"dataset.random_resized_crop", "0.5"}});
  EXPECT_THROW(check_resumable(from, other.config, *other.data.train), DataError);
}

TEST(CheckpointsThatFail, AreNotedUntilTheLastOne) {
  test::TemporaryFolder folder;
  const fs::path file = folder.path() / "file";
  std::ofstream(file) << "no folder";
  const Done done = train(kLayers, "reference", file / "checkpoints");
  EXPECT_EQ(done.result.steps, 18);
  ASSERT_FALSE(done.notes.empty());
  EXPECT_THAT(done.notes[0], HasSubstr("warning: the checkpoint of step 4 was not saved: cannot "
                                       "write"));
  EXPECT_THAT(done.result.checkpoint_error, HasSubstr("the checkpoint of step 18 was not saved"));
}

// Sets the limit for the size of files for as long as it lives.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_;
  void (*handler_)(int);
};

TEST(CheckpointsThatFail, LeaveEarlierOnesAndNothingElse) {
  test::TemporaryFolder folder;
  train(kLayers, "reference", folder.path(), {}, 4);
  Done done;
  {
    const FileLimit limit(1000);
    done = train(kLayers, "reference", folder.path(), {}, 8, folder.path() / checkpoint_name(4));
  }
  EXPECT_THAT(done.result.checkpoint_error, HasSubstr("ulimit -f"));
  EXPECT_EQ(newest_checkpoint(folder.path().parent_path(), [](const std::string&) {}), "");
  EXPECT_NO_THROW(verify_checkpoint(folder.path() / checkpoint_name(4)));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(RankState, IsWhollyWrittenByOneRank) {
  Job job(kLayers, "reference", {{"optimizer.name", "adamw"}});
  KeptState kept(job.programs->rank_model());
  kept.take();
  const data::FileView& file = kept.file();
  std::map<std::string, int> groups;
  for (const auto& [name, tensor] : file.tensors) ++groups[name.substr(0, name.find('/'))];
  EXPECT_EQ(file.tensors.size(), held_tensors(job.programs->rank_model()).size());
  EXPECT_THAT(groups,
              testing::ElementsAre(testing::Pair("adam_m", 6), testing::Pair("adam_v", 6),
                                   testing::Pair("parameters", 6), testing::Pair("statistics", 2)));
  EXPECT_THAT(file.metadata, testing::IsEmpty());
}

// The steps are still queued when the state is taken; the memory is the same each time.
TEST(KeptStates, AreThoseBehindTheQueuedSteps) {
  for (const std::string backend : {"reference", "simulated"}) {
    Job job(kLayers, backend, {{"optimizer.name", "adamw"}});
    KeptState kept(job.programs->rank_model());
    std::map<std::string, const std::byte*> memory;
    for (int i = 0; i < 2; ++i) {
      for (int k = 0; k < 3; ++k) job.trainer->step(job.loader->next(), 0.01);
      kept.take();
      for (const HeldTensor& held : held_tensors(job.programs->rank_model())) {
        const data::TensorView& tensor = kept.file().tensors.at(held.name);
        EXPECT_TRUE(std::vector<std::byte>(tensor.data, tensor.data + tensor.bytes) ==
                    exec::read_memory(job.programs->stream(), held.address, held.bytes()))
            << held.name << " on " << backend;
        EXPECT_EQ(memory.emplace(held.name, tensor.data).first->second, tensor.data);
      }
      job.losses();
    }
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.begin()->second) % 4096, 0u);
  }
}

}  // namespace
}  // namespace runtime::train
