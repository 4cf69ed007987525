// Checks manifests, damaged files, retention and clean-up of checkpoint folders.
#include "runtime/train/checkpoint/folder.h"

#include <gmock/gmock.h>

#include <fstream>

#include "runtime/error.h"
#include "runtime/train/checkpoint/find.h"
#include "tests/runtime/support/devices.h"

namespace runtime::train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

void write(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

// A checkpoint of three small files.
fs::path make(const fs::path& folder, int64_t step, std::optional<double> monitored = {},
              const std::string& monitor = "loss") {
  fs::path path = folder / checkpoint_name(step);
  fs::create_directories(path);
  Manifest manifest;
  manifest.state.step = step;
  manifest.state.monitored = monitored;
  manifest.state.monitor = monitor;
  for (const std::string& name :
       {rank_file(0), decisions_file(0), std::string(kSavedConfiguration)}) {
    write(path / name, "the contents of " + name + " after step " + std::to_string(step));
    manifest.files.push_back(describe_file(path, name));
  }
  write_manifest(path, manifest);
  return path;
}

std::string fault_of(const fs::path& checkpoint) {
  try {
    verify_checkpoint(checkpoint);
    return "whole";
  } catch (const DataError& error) {
    return error.what();
  }
}

std::vector<int64_t> steps_in(const fs::path& folder) {
  std::vector<int64_t> steps;
  for (const fs::path& path : list_checkpoints(folder))
    steps.push_back(step_of_name(path.filename().string()));
  return steps;
}

TEST(CheckpointFolder, NamesAreSortedAsSteps) {
  EXPECT_EQ(checkpoint_name(42), "step-000000042");
  EXPECT_EQ(step_of_name(checkpoint_name(1234567890123)), 1234567890123);
  for (const char* name :
       {"step-", "step-42", "step-x00000042", ".step-000000042", "step-00000004200000000000"})
    EXPECT_EQ(step_of_name(name), -1) << name;
}

TEST(CheckpointFolder, TheManifestComesBack) {
  test::TemporaryFolder folder;
  const Manifest manifest = verify_checkpoint(make(folder.path(), 7, 0.5));
  EXPECT_EQ(manifest.state.step, 7);
  EXPECT_EQ(manifest.state.monitored, 0.5);
  ASSERT_EQ(manifest.files.size(), 3u);
  EXPECT_EQ(manifest.files[2].name, "config.toml");
}

TEST(CheckpointFolder, AFlippedBitInEachByteAndEveryCutAreFound) {
  test::TemporaryFolder folder;
  const fs::path checkpoint = make(folder.path(), 7);
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    const std::string good = test::read_text(entry.path());
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 1 << i % 8);
      write(entry.path(), bad);
      ASSERT_THAT(fault_of(checkpoint), HasSubstr("damaged")) << entry.path() << " byte " << i;
    }
    for (size_t size = 0; size < good.size(); ++size) {
      write(entry.path(), good.substr(0, size));
      ASSERT_NE(fault_of(checkpoint), "whole") << entry.path() << " cut to " << size;
    }
    write(entry.path(), good + "x");
    EXPECT_NE(fault_of(checkpoint), "whole") << entry.path();
    write(entry.path(), good);
  }
  EXPECT_EQ(fault_of(checkpoint), "whole");
  fs::remove(checkpoint / rank_file(0));
  EXPECT_THAT(fault_of(checkpoint), HasSubstr(rank_file(0)));
}

TEST(CheckpointFolder, DamagedOnesArePassedOver) {
  test::TemporaryFolder folder;
  const fs::path& run = folder.path();
  const fs::path all = run / kCheckpoints;
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& text) { warnings.push_back(text); };
  EXPECT_EQ(newest_checkpoint(run, warn), "");
  EXPECT_THROW(checkpoint_at(run, warn), DataError);
  const fs::path good = make(all, 9), bad = make(all, 10);
  EXPECT_EQ(newest_checkpoint(run, warn), bad);
  write(bad / rank_file(0), "something else");
  EXPECT_EQ(newest_checkpoint(run, warn), good);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("passed over")));
  EXPECT_EQ(checkpoint_at(run, warn), good);
  EXPECT_EQ(checkpoint_at(good, warn), good);
  EXPECT_THROW(checkpoint_at(bad, warn), DataError);
}

TEST(CheckpointFolder, ARunIsFoundByItsCheckpoints) {
  test::TemporaryFolder folder;
  EXPECT_EQ(newest_run(folder.path() / "nothing"), "");
  fs::create_directories(folder.path() / "without");
  const fs::path checkpoint = make(folder.path() / "first" / kCheckpoints, 3);
  EXPECT_EQ(newest_run(folder.path()), folder.path() / "first");
  make(folder.path() / "second" / kCheckpoints, 1);
  fs::last_write_time(folder.path() / "first" / kCheckpoints,
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(newest_run(folder.path()), folder.path() / "second");
  EXPECT_EQ(run_of(checkpoint), folder.path() / "first");
  EXPECT_EQ(run_of(checkpoint / ""), folder.path() / "first");
  EXPECT_EQ(run_of(folder.path() / "first"), folder.path() / "first");
  EXPECT_EQ(run_of(folder.path() / "elsewhere"), "");
}

TEST(CheckpointFolder, ANewOneReplacesOneOfTheSameStep) {
  test::TemporaryFolder folder;
  const fs::path old = make(folder.path(), 5), fresh = make(folder.path() / "new", 5, 0.25);
  publish_checkpoint(fresh, old);
  EXPECT_EQ(verify_checkpoint(old).state.monitored, 0.25);
  EXPECT_FALSE(fs::exists(fresh));
  EXPECT_THROW(publish_checkpoint(fresh, folder.path() / "x"), DataError);
}

TEST(CheckpointFolder, TheLatestAndTheBestStay) {
  test::TemporaryFolder folder;
  const double losses[] = {0.5, 0.2, 0.9, 0.1, 0.7};
  for (int64_t step = 1; step <= 5; ++step) make(folder.path(), step, losses[step - 1]);
  make(folder.path(), 6);
  prune_checkpoints(folder.path(), {.latest = 0, .best = 0}, 6);
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(6, 5, 4, 3, 2, 1));
  prune_checkpoints(folder.path(), {.latest = 2, .best = 2}, 6);
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(6, 5, 4, 2));
  for (const int64_t step : {2, 4, 5})
    make(folder.path(), step, static_cast<double>(step) / 10, "accuracy");
  prune_checkpoints(folder.path(), {.latest = 1, .best = 1, .monitor = "accuracy"}, 6);
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(6, 5));
  make(folder.path(), 9);  // of a run that was passed over
  prune_checkpoints(folder.path(), {.latest = 1}, 6);
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(9, 6));
}

TEST(CheckpointFolder, WhatAKilledRunLeftIsRemoved) {
  test::TemporaryFolder folder;
  make(folder.path(), 6);
  fs::create_directories(folder.path() / ".step-000000007.0123.tmp" / "x");
  write(folder.path() / ".probe.0123.tmp0", "");
  fs::create_directories(folder.path() / "mine");
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(6));
  remove_temporary_folders(folder.path());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
}

}  // namespace
}  // namespace runtime::train
