// Runs shells in place of `runtime`.
#include "tools/trials/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "runtime/error.h"

namespace tools::trials {
namespace {

Task shell(const std::string& script) {
  Task task;
  task.name = "a shell";
  task.arguments = {"-c", script};
  return task;
}

Ended result_of(Task task) {
  Pool pool("/bin/sh");
  pool.start(std::move(task));
  return pool.wait().value();
}

TEST(Pool, TellsHowARunHasEnded) {
  const Ended ended =
      result_of(shell("echo one; echo two; echo note >&2; echo 'error: why' >&2; exit 3"));
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_EQ(ended.signal, 0);
  EXPECT_EQ(ended.output, "two");
  EXPECT_EQ(ended.error, "why");
  EXPECT_FALSE(ended.timed_out);
  EXPECT_FALSE(ended.stopped);
}

TEST(Pool, TellsWhichSignalHasEndedARun) {
  const Ended ended = result_of(shell("kill -KILL $$"));
  EXPECT_EQ(ended.signal, SIGKILL);
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
}

TEST(Pool, PassesEveryLineOn) {
  std::string lines;
  Task task = shell("i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i + 1)); done");
  task.on_line = [&](const std::string& line) {
    lines += line + "\n";
    return true;
  };
  EXPECT_EQ(result_of(std::move(task)).output, "line 1999");
  std::ostringstream expected;
  for (int i = 0; i < 2000; ++i) expected << "line " << i << "\n";
  EXPECT_EQ(lines, expected.str());
}

TEST(Pool, EndsARunThatTakesTooLong) {
  Task task = shell("exec sleep 100");
  task.timeout_s = 0.2;
  const Ended ended = result_of(std::move(task));
  EXPECT_TRUE(ended.timed_out);
  EXPECT_EQ(ended.signal, SIGTERM);
}

TEST(Pool, EndsARunWhoseLinesSaySo) {
  Task task = shell("trap 'exit 143' TERM; echo go on; echo stop; while :; do sleep 0.1; done");
  task.on_line = [](const std::string& line) { return line != "stop"; };
  const Ended ended = result_of(std::move(task));
  EXPECT_TRUE(ended.stopped);
  EXPECT_EQ(ended.exit_code, 143);
}

TEST(Pool, RunsSeveralAtOnce) {
  Pool pool("/bin/sh");
  std::map<int, int> codes;
  for (int i = 0; i < 5; ++i) codes[pool.start(shell("sleep 0.1; exit " + std::to_string(i)))] = i;
  EXPECT_EQ(pool.running(), 5u);
  EXPECT_EQ(codes.size(), 5u);
  while (const std::optional<Ended> ended = pool.wait()) {
    EXPECT_EQ(ended->exit_code, codes.at(ended->id));
    codes.erase(ended->id);
  }
  EXPECT_TRUE(codes.empty());
}

TEST(Pool, ASignalToThisProcessEndsAllRuns) {
  Pool pool("/bin/sh");
  for (int i = 0; i < 2; ++i)
    pool.start(shell("trap 'exit 143' TERM; while :; do sleep 0.05; done"));
  usleep(300000);  // until the shells have set their traps; else SIGTERM ends them all the same
  kill(getpid(), SIGINT);
  for (int i = 0; i < 2; ++i) {
    const std::optional<Ended> ended = pool.wait();
    ASSERT_TRUE(ended.has_value());
    EXPECT_TRUE(ended->stopped);
    EXPECT_EQ(ended->exit_code, 143);
  }
  EXPECT_EQ(pool.signal(), SIGINT);
}

TEST(Pool, ASecondSignalKillsWhatDoesNotEnd) {
  Pool pool("/bin/sh");
  pool.start(shell("trap '' TERM; kill -TERM $PPID; sleep 0.3; kill -TERM $PPID; sleep 100"));
  const std::optional<Ended> ended = pool.wait();
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->signal, SIGKILL);
  EXPECT_EQ(pool.signal(), SIGTERM);
}

TEST(Pool, LeavesNoRunBehind) {
  std::string id;
  {
    Pool pool("/bin/sh");
    Task task = shell("trap '' TERM; echo $$; while :; do sleep 0.05; done");
    task.on_line = [&](const std::string& line) {
      id = line;
      return false;
    };
    pool.start(std::move(task));
    pool.start(shell("while [ ! -e /proc/self ]; do :; done"));
    pool.wait();  // the second one
    while (id.empty()) {
      pool.start(shell("sleep 0.05"));
      pool.wait();
    }
  }
  EXPECT_FALSE(std::filesystem::exists("/proc/" + id)) << id;
}

TEST(Pool, WritesTheErrorsToALog) {
  const std::string log = testing::TempDir() + "pool_test." + std::to_string(getpid()) + ".log";
  for (const char* text : {"one", "two"}) {
    Task task = shell(std::string("echo ") + text + " >&2");
    task.log = log;
    EXPECT_EQ(result_of(std::move(task)).error, text);
  }
  std::stringstream content;
  content << std::ifstream(log).rdbuf();
  std::filesystem::remove(log);
  EXPECT_EQ(content.str(), "one\ntwo\n");
}

TEST(Pool, ALogThatCannotBeOpenedIsAnError) {
  Pool pool("/bin/sh");
  Task task = shell("true");
  task.log = "/dev/null/folder/log";
  EXPECT_THROW(pool.start(std::move(task)), runtime::DataError);
  EXPECT_EQ(pool.running(), 0u);
}

TEST(Pool, BindsARunToProcessors) {
  Task task = shell("grep Cpus_allowed_list: /proc/self/status");
  const std::string before = result_of(task).output;
  const std::string first = before.substr(before.find('\t') + 1);
  task.processors = {std::stoi(first)};
  EXPECT_EQ(result_of(task).output, "Cpus_allowed_list:\t" + std::to_string(task.processors[0]));
  task.processors.clear();
  EXPECT_EQ(result_of(task).output, before) << "this process is still bound";
}

}  // namespace
}  // namespace tools::trials
