// Checkpoints that are due while the one before is still being written, on a disk that stands still
// for as long as a test wants: training goes on, and each checkpoint has the bits of its step.
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <thread>

#include "runtime/train/checkpoint/checkpoints.h"
#include "runtime/train/run/loop.h"
#include "tests/runtime/exec/local_ranks.h"
#include "tests/runtime/train/job.h"

namespace {

namespace fs = std::filesystem;

// The disk of this program. It does not finish to write files whose names contain `held`.
class Disk {
 public:
  void hold(const std::string& held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
  }
  void let_go() {
    hold("");
    go_on_.notify_all();
  }
  void sync(int file) {
    std::error_code ignored;
    const std::string name =
        fs::read_symlink("/proc/self/fd/" + std::to_string(file), ignored).filename().string();
    std::unique_lock lock(mutex_);
    go_on_.wait(lock, [&] { return held_.empty() || name.find(held_) == std::string::npos; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable go_on_;
  std::string held_;
};

Disk& disk() {
  static Disk& disk = *new Disk;
  return disk;
}

}  // namespace

// Takes the place of the system's function in this program.
extern "C" int fsync(int file) {
  disk().sync(file);
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace runtime::train {
namespace {

using exec::LocalRank;
using testing::Each;

constexpr char kNet[] = R"(
[model]
input = [6]
layers = [ { type = "linear", features = 5 }, { type = "batch_norm" }, { type = "linear", features = 3 } ]
[dataset]
name = "synthetic"
samples = 40
classes = 3
prefetch = 0
[training]
global_batch_size = 8
steps = 100000
[optimizer]
name = "adamw"
lr = 0.001
[checkpoint]
interval_minutes = 0
interval_steps = 4
keep_latest = 0
)";

// Calls a function after each step.
class AfterStep : public Reporter {
 public:
  explicit AfterStep(std::function<void(int64_t)> call) : call_(std::move(call)) {}
  void note(const std::string&) override {}
  void step(const Metrics& metrics, int64_t, int64_t) override { call_(metrics.step); }
  void line(const Metrics&) override {}

 private:
  const std::function<void(int64_t)> call_;
};

struct Trained {
  std::vector<std::string> notes;  // of rank 0
  std::vector<int64_t> saved;      // the steps of the checkpoints, ascending
};

// Trains on so many ranks into a folder; `after_step` is called on rank 0, and the run ends at
// `most` or once there are so many checkpoints.
Trained train(
    const fs::path& folder, int ranks, int64_t most, size_t checkpoints,
    const std::function<void(int64_t)>& after_step = [](int64_t) {},
    const std::vector<config::Override>& overrides = {}, const std::string& backend = "reference") {
  Trained done;
  const auto body = [&](int rank, exec::Collectives* collectives, const OnMain& on_main) {
    const config::Config config = test::parse(kNet, overrides);
    const data::DatasetPair data = open_data(config, nullptr);
    exec::CompileOptions options{{.tune = exec::Tune::kOff}};
    options.collectives = collectives;
    const auto programs = std::make_shared<StepPrograms>(
        RankSetup(config, data.train->spec(), test::open_device(backend), options));
    Trainer trainer(programs);
    RunOptions run;
    run.max_steps = most;
    run.checkpoints.folder = folder;
    run.checkpoints.configuration = config::to_toml(config);
    run.checkpoints.on_main = on_main;
    run.checkpoints.note = [&, rank](const std::string& text) {
      if (rank == 0) done.notes.push_back(text);
    };
    run.stop = [&, rank] {
      return rank == 0 && list_checkpoints(folder).size() >= checkpoints ? SIGTERM : 0;
    };
    AfterStep reporter([&, rank](int64_t step) {
      if (rank == 0) after_step(step);
    });
    const RunResult result = run_training(config, data, *programs, trainer, reporter, run);
    EXPECT_EQ(result.checkpoint_error, "");
  };
  if (ranks == 1) {
    body(0, nullptr, [](const char*, const std::function<void()>& work) { work(); });
  } else {
    const auto errors = exec::on_local_ranks(ranks, [&](LocalRank& rank) {
      body(rank.rank, &rank.collectives, [&](const char*, const std::function<void()>& work) {
        if (rank.rank == 0) work();
        double all = 0;
        rank.collectives.all_reduce(&all, 1, RT_SUM);
      });
    });
    EXPECT_THAT(errors, Each(""));
  }
  for (const fs::path& path : list_checkpoints(folder))
    done.saved.insert(done.saved.begin(), step_of_name(path.filename().string()));
  return done;
}

data::TensorFile tensors(const fs::path& folder, int64_t step) {
  const fs::path path = folder / checkpoint_name(step);
  return join_checkpoint(path, verify_checkpoint(path));
}

// Which file of which rank the disk does not finish, with how many ranks, on which device.
struct Held {
  std::string file;
  int ranks;
  std::string backend = "reference";
};
std::ostream& operator<<(std::ostream& to, const Held& held) {
  return to << held.file << " of " << held.ranks << " on " << held.backend;
}

class PutOff : public testing::TestWithParam<Held> {};

// Saving begins behind step 4; behind step 30 the disk goes on.
TEST_P(PutOff, UntilTheOneBeforeIsWritten) {
  const auto& [file, ranks, backend] = GetParam();
  test::TemporaryFolder folder;
  disk().hold(file);
  std::vector<fs::path> while_held;
  const auto after_step = [&](int64_t step) {
    if (step == 30) while_held = list_checkpoints(folder.path() / "run");
    if (step == 30) disk().let_go();
  };
  const Trained done = train(folder.path() / "run", ranks, 100000, 2, after_step, {}, backend);
  EXPECT_THAT(while_held, testing::IsEmpty());
  ASSERT_GE(done.saved.size(), 2u);
  EXPECT_EQ(done.saved[0], 4);
  EXPECT_GE(done.saved[1], 30);
  ASSERT_GE(done.notes.size(), 1u);
  EXPECT_EQ(done.notes[0],
            "note: the checkpoint of step 8 waits for the one of step 4, which is still being "
            "written");
  // Those of the steps 12 to 28 were put off with that of step 8.
  EXPECT_EQ(std::count_if(done.notes.begin(), done.notes.end(),
                          [](const std::string& note) {
                            return note.find("waits for the one of step 4,") != std::string::npos;
                          }),
            1);
  // Each has the bits of a run that has ended at its step.
  for (const int64_t step : {done.saved[0], done.saved[1]}) {
    const fs::path alone = folder.path() / std::to_string(step);
    train(
        alone, ranks, step, 1000000, [](int64_t) {}, {{"checkpoint.interval_steps", "1000000"}},
        backend);
    EXPECT_TRUE(same_bits(tensors(folder.path() / "run", step), tensors(alone, step))) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Disks, PutOff,
                         testing::Values(Held{"rank-0.", 1}, Held{"manifest", 1},
                                         Held{"rank-0.", 2}, Held{"rank-1.", 2},
                                         Held{"manifest", 2}, Held{"rank-0.", 1, "simulated"}));

// Lets the disk go on in a while.
std::thread later() {
  return std::thread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    disk().let_go();
  });
}

// The weights of a step that was validated are those that keep_best promises.
TEST(NotPutOff, TheBestValidation) {
  test::TemporaryFolder folder;
  disk().hold("manifest");
  std::thread helper;
  const auto after_step = [&](int64_t step) {
    if (step == 6) helper = later();
  };
  const Trained done = train(folder.path(), 1, 9, 1000000, after_step,
                             {{"dataset.validation_split", "0.2"},
                              {"validation.every_steps", "6"},
                              {"checkpoint.keep_best", "1"}});
  helper.join();
  EXPECT_THAT(done.saved, testing::IsSupersetOf({int64_t{4}, int64_t{6}, int64_t{9}}));
}

// The end of a run waits, because nothing comes later.
TEST(NotPutOff, TheEndOfARun) {
  test::TemporaryFolder folder;
  disk().hold("manifest");
  std::thread helper = later();
  const Trained done = train(folder.path(), 1, 7, 1000000);
  helper.join();
  EXPECT_THAT(done.saved, testing::ElementsAre(4, 7));
}

}  // namespace
}  // namespace runtime::train
