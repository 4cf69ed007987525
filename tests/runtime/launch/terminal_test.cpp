// The launcher with a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>

#include "tests/runtime/launch/program.h"

namespace runtime::launch::test {
namespace {

using testing::HasSubstr;

const std::string kControlC = "\003", kControlZ = "\032";

char state_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  return line.at(line.rfind(')') + 2);
}

TEST(Terminal, RankZeroHasItAndTheOthersAPrefix) {
  Program program({"processes", "2", "0", "terminal"}, {}, Output::kTerminal);
  program.wait_for("[rank 1] no terminal");
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(program.out(), HasSubstr("a terminal"));
}

// If a rank received the signal twice, it would end before it has saved.
TEST(Terminal, ControlCReachesEachRankOnce) {
  Program program({"processes", "2", "0", "train=400"}, {}, Output::kTerminal);
  program.wait_for("training", 2);
  program.type(kControlC);
  EXPECT_EQ(program.wait(), 130);
  EXPECT_EQ(count(program.err(), "saved"), 2) << program.err();
}

TEST(Terminal, ControlZStopsAllAndSigcontGoesOn) {
  Program program({"processes", "2", "0", "train=0"}, {}, Output::kTerminal);
  program.wait_for("training", 2);
  const std::vector<pid_t> all = program.processes();
  ASSERT_EQ(all.size(), 3);
  // The launcher is the first process of its session. No shell above it could continue it, so the
  // terminal does not stop it and the test sends the signal.
  program.send(SIGTSTP);
  const auto stopped = [&] {
    return std::all_of(all.begin(), all.end(), [](pid_t p) { return state_of(p) == 'T'; });
  };
  for (int i = 0; i < 1000 && !stopped(); ++i) usleep(10'000);
  EXPECT_TRUE(stopped());
  program.send(SIGCONT);
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 143);
  EXPECT_EQ(count(program.err(), "saved"), 2) << program.err();
}

}  // namespace
}  // namespace runtime::launch::test
