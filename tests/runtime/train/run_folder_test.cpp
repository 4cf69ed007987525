// Checks which folders and files a run may take, replace or keep.
#include "runtime/train/run/run_folder.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "runtime/error.h"
#include "runtime/train/checkpoint/find.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class RunFolders : public testing::Test {
 protected:
  RunFolders() : config_(test::parse(kTiny)), run_(folder_.path() / "a" / "run") {
    config_.job.dump_folder = run_.string();
  }
  // Makes the files of a complete run.
  void make_run(const std::string& launch = "") {
    RunFolder folder(config_, launch);
    folder.begin(config_);
    for (const char* name : {"weights.safetensors", "metrics.jsonl", "scaling.json"})
      folder_.write(fs::relative(run_ / name, folder_.path()).string(), "of the first run");
  }
  std::string refusal(const std::string& launch = "") const {
    return test::message_of<ConfigurationError>([&] { RunFolder folder(config_, launch); });
  }
  std::string text(const std::string& name) const { return test::read_text(run_ / name); }

  test::TemporaryFolder folder_;
  config::Config config_;
  fs::path run_;
};

TEST_F(RunFolders, HoldTheResolvedConfiguration) {
  RunFolder folder(config_, "");
  EXPECT_EQ(folder.path(), run_);
  EXPECT_FALSE(fs::exists(run_ / "config.toml")) << "the data may still turn out to be bad";
  folder.begin(config_);
  const config::Config again = test::parse(text("config.toml"));
  EXPECT_EQ(again.model.layers.size(), 2u);
  EXPECT_EQ(again.optimizer.lr, 0.1);
}

TEST_F(RunFolders, FoldersThatCannotBeMade) {
  config_.job.dump_folder = folder_.write("file", "") + "/below";
  EXPECT_THAT(test::message_of<DataError>([&] { RunFolder folder(config_, ""); }),
              AllOf(HasSubstr("file/below"), HasSubstr("job.dump_folder")));
}

TEST_F(RunFolders, AnotherRunIsNotReplacedUnlessTold) {
  make_run();
  EXPECT_THAT(refusal(), AllOf(HasSubstr("holds weights.safetensors of an earlier run"),
                               HasSubstr("job.overwrite=true")));
  config_.job.overwrite = true;
  RunFolder folder(config_, "");
  EXPECT_EQ(text("metrics.jsonl"), "of the first run") << "nothing has been computed yet";
  folder.begin(config_);
  EXPECT_FALSE(fs::exists(run_ / "metrics.jsonl"));
  EXPECT_FALSE(fs::exists(run_ / "scaling.json"));
  EXPECT_EQ(text("weights.safetensors"), "of the first run") << "until there are new ones";
}

TEST_F(RunFolders, FilesThatNoRunHasWrittenAreNeverReplaced) {
  fs::create_directories(run_);
  folder_.write("a/run/config.toml", "the user's own");
  for (const bool overwrite : {false, true}) {
    config_.job.overwrite = overwrite;
    EXPECT_THAT(refusal(), AllOf(HasSubstr("holds config.toml"), HasSubstr("move that file")));
  }
  EXPECT_EQ(text("config.toml"), "the user's own");
  EXPECT_FALSE(fs::exists(run_ / ".runtime-run"));
}

TEST_F(RunFolders, LinksCountAsFiles) {
  fs::create_directories(run_);
  fs::create_symlink("nothing", run_ / "weights.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("holds weights.safetensors"));
}

// A run may end before it begins, for example if its data set is not found. It leaves nothing in
// its folder.
TEST_F(RunFolders, ARunThatDidNotBeginLeavesNothing) {
  { RunFolder folder(config_, ""); }
  EXPECT_TRUE(fs::is_empty(run_));
  folder_.write("a/run/config.toml", "the user's own");
  EXPECT_THAT(refusal(), HasSubstr("holds config.toml"));
}

TEST_F(RunFolders, ARunWithoutResultsIsNothingToLose) {
  RunFolder(config_, "").begin(config_);
  folder_.write("a/run/metrics.jsonl", "");
  config_.optimizer.lr = 0.25;
  RunFolder(config_, "").begin(config_);
  EXPECT_EQ(test::parse(text("config.toml")).optimizer.lr, 0.25);
}

TEST_F(RunFolders, OtherFilesStay) {
  fs::create_directories(run_);
  folder_.write("a/run/notes.txt", "the user's own");
  make_run();
  EXPECT_EQ(text("notes.txt"), "the user's own");
}

// Each attempt begins with step 0. With the lines of the attempt before, metrics.jsonl would have
// steps twice.
TEST_F(RunFolders, AnotherAttemptOfTheSameRunReplacesItsFiles) {
  make_run("launch 1");
  RunFolder(config_, "launch 1").begin(config_);
  EXPECT_FALSE(fs::exists(run_ / "metrics.jsonl"));
  EXPECT_EQ(text("weights.safetensors"), "of the first run");
  make_run("launch 1");
  EXPECT_THAT(refusal("launch 2"), HasSubstr("of an earlier run"));
  EXPECT_THAT(refusal(), HasSubstr("of an earlier run"));
}

TEST_F(RunFolders, ARunThatCouldNotBeSavedDoesNotBeginAnewInSilence) {
  const auto ignore = [](const std::string&) {};
  {
    RunFolder folder(config_, "");
    folder.begin(config_);
    folder_.write("a/run/metrics.jsonl", "{}");
  }
  config_.checkpoint.resume = "auto";
  EXPECT_TRUE(RunFolder(config_, "").find_checkpoint(config_, ignore).empty())
      << "it was killed before its first checkpoint";
  folder_.write(std::string("a/run/") + kUnsaved, "not every rank sees it");
  EXPECT_THAT(
      test::message_of<DataError>([&] { RunFolder(config_, "").find_checkpoint(config_, ignore); }),
      AllOf(HasSubstr("--resume auto: "), HasSubstr("has no checkpoint, because its run"),
            HasSubstr("job.dump_folder")));
  config_.checkpoint.resume.clear();
  config_.job.overwrite = true;
  RunFolder folder(config_, "");
  folder.begin(config_);
  EXPECT_FALSE(fs::exists(run_ / kUnsaved));
}

TEST_F(RunFolders, AreFoundByTheConfigurationThatARunHasSaved) {
  make_run();
  const fs::path checkpoint = run_ / "checkpoints" / "step-000000001";
  fs::create_directories(checkpoint);
  EXPECT_EQ(RunFolder::of_configuration(run_ / "config.toml"), run_);
  EXPECT_EQ(RunFolder::of_configuration(checkpoint / "config.toml"), run_);
  EXPECT_EQ(RunFolder::of_configuration(run_ / "mine.toml"), "") << "a file of the user's";
  EXPECT_EQ(RunFolder::of_configuration(folder_.path() / "config.toml"), "") << "no run's folder";
}

TEST_F(RunFolders, TwoRunsAtTheSameTime) {
  RunFolder folder(config_, "");
  folder.begin(config_);
  config_.job.overwrite = true;
  EXPECT_THAT(refusal(), HasSubstr("is in use by another run"));
}

TEST_F(RunFolders, RunsOfTheSameSecondGetFoldersOfTheirOwn) {
  config_.job.dump_folder.clear();
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  std::vector<fs::path> folders(16);
  {
    std::vector<std::jthread> threads;
    for (fs::path& path : folders)
      threads.emplace_back([&] { path = RunFolder(config_, "").path(); });
  }
  EXPECT_EQ(std::set<fs::path>(folders.begin(), folders.end()).size(), folders.size());
  for (const fs::path& path : folders) EXPECT_TRUE(fs::is_directory(path)) << path;
  fs::current_path(before);
}

}  // namespace
}  // namespace runtime::train
