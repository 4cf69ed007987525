// Tests the harness itself.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/collectives/support/job.h"
#include "tests/collectives/support/rank.h"

namespace collectives::testing {
namespace {

using namespace std::chrono_literals;

// A zombie that has not been reaped yet counts as dead.
bool is_alive(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string id, name, state;
  return (file >> id >> name >> state) && state != "Z" && state != "X";
}

JobOptions shell(const std::string& script, int ranks = 1) {
  return {.command = {"/bin/sh", "-c", script}, .ranks = ranks};
}

TEST(Job, SaysHowEveryRankEnded) {
  Job job(shell("echo I am $RUNTIME_TEST_RANK of $RUNTIME_TEST_RANKS; exit $RUNTIME_TEST_RANK", 3));
  const auto ends = job.wait();
  ASSERT_EQ(ends.size(), 3u);
  EXPECT_EQ(ends[0].status, 0);
  EXPECT_EQ(ends[2].status, 2);
  EXPECT_EQ(ends[2].output, "I am 2 of 3\n");
}

TEST(Job, KillsTheWholeGroupAtTheLimit) {
  JobOptions options = shell("sleep 100 & echo $!; wait", 2);
  options.limit = 300ms;
  Job job(options);
  for (const ProcessEnd& end : job.wait()) {
    EXPECT_EQ(end.status, ProcessEnd::kNotEnded);
    const pid_t child = std::stoi(end.output);
    for (int i = 0; i < 1000 && is_alive(child); ++i) std::this_thread::sleep_for(5ms);
    EXPECT_FALSE(is_alive(child)) << "the child " << child << " of a rank lives on";
  }
}

TEST(Job, ASignalReachesOneRank) {
  Job job(shell("sleep 100", 2));
  job.send_signal(1, SIGKILL);
  while (!job.has_ended(1)) std::this_thread::sleep_for(1ms);
  EXPECT_FALSE(job.has_ended(0));
  job.send_signal(0, SIGTERM);
  EXPECT_EQ(job.wait()[0].status, 128 + SIGTERM);
  EXPECT_EQ(job.wait()[1].status, 128 + SIGKILL);
}

TEST(Job, LeavesNoFolder) {
  std::filesystem::path folder;
  {
    Job job(shell("true"));
    folder = job.folder();
    EXPECT_TRUE(std::filesystem::exists(folder));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(Job, ALauncherIsOneProcess) {
  JobOptions options = shell("echo ranks", 4);
  options.launcher = {"/usr/bin/env", "X=1"};
  Job job(options);
  ASSERT_EQ(job.wait().size(), 1u);
  EXPECT_EQ(job.wait()[0].output, "ranks\n");
}

TEST(FileStore, WaitsForKeys) {
  Job job(shell("true"));
  const auto store = file_store(job.folder() / "store");
  EXPECT_THROW(store.kv_get("a/b", 10ms), plugins::host::Error);
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    file_store(job.folder() / "store").kv_set("a/b", std::string("v\0w", 3));
  });
  EXPECT_EQ(store.kv_get("a/b", 60s), std::string("v\0w", 3));
  other.join();
}

}  // namespace
}  // namespace collectives::testing
