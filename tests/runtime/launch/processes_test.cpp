// Ranks as processes: output, signals, failures and restarts; no process and no file is left
// behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>

#include "tests/runtime/launch/program.h"

namespace runtime::launch::test {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

Words processes(int ranks, const Words& actions, int max_restarts = 0) {
  Words words = {"processes", std::to_string(ranks), std::to_string(max_restarts)};
  words.insert(words.end(), actions.begin(), actions.end());
  return words;
}

void expect_nothing_left(const Program& program) {
  EXPECT_THAT(program.processes(), IsEmpty());
  EXPECT_THAT(program.left_files(), IsEmpty());
}

TEST(Processes, EachRankKnowsItself) {
  Program program(processes(3, {"show"}));
  EXPECT_EQ(program.wait(), 0);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string r = std::to_string(rank);
    EXPECT_THAT(program.err(),
                HasSubstr("[rank " + r + "] rank " + r + " of 3, local " + r + " of 3"));
  }
  EXPECT_EQ(count(program.err(), "rendezvous file:/"), 3);
  expect_nothing_left(program);
}

TEST(Processes, LinesHaveThePrefixOfTheirRankExceptRankZerosOutput) {
  Program program(processes(2, {"out=result", "err=note", "terminal", "partial=unfinished"}));
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(lines_of(program.out()),
              UnorderedElementsAre("result", "no terminal", "[rank 1] result",
                                   "[rank 1] no terminal", "unfinished", "[rank 1] unfinished"))
      << program.out();
  EXPECT_THAT(lines_of(program.err()), UnorderedElementsAre("[rank 0] note", "[rank 1] note"));
}

TEST(Processes, ALineAbove64KiBComesInPieces) {
  Program program(processes(2, {"1:long=150000"}));
  EXPECT_EQ(program.wait(), 0);
  const auto lines = lines_of(program.out());
  ASSERT_EQ(lines.size(), 3);
  size_t letters = 0;
  for (const std::string& line : lines) {
    EXPECT_TRUE(line.starts_with("[rank 1] x"));
    letters += line.size() - std::string("[rank 1] ").size();
  }
  EXPECT_EQ(letters, 150'000);
}

TEST(Processes, AMebibyteOfLinesFromEachRankArrivesCompleteAndUnmixed) {
  constexpr int kLines = 11'000;
  Program program(processes(3, {"lines=" + std::to_string(kLines)}));
  EXPECT_EQ(program.wait(), 0);
  std::map<std::string, int> next;  // the next number, by prefix
  for (const std::string& line : lines_of(program.out())) {
    const std::string prefix = line.starts_with("[") ? line.substr(0, 9) : "";
    const int i = next[prefix]++;
    ASSERT_EQ(line, prefix + std::to_string(i) + std::string(90, static_cast<char>('a' + i % 26)));
  }
  EXPECT_EQ(next, (std::map<std::string, int>{
                      {"", kLines}, {"[rank 1] ", kLines}, {"[rank 2] ", kLines}}));
}

TEST(Processes, TheFirstSignalLetsRanksSaveAndTheExitCodeTellsIt) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Program program(processes(2, {"train=100"}));
    program.wait_for("training", 2);
    program.send(signal);
    EXPECT_EQ(program.wait(), 128 + signal);
    EXPECT_EQ(count(program.err(), "saved"), 2) << program.err();
    expect_nothing_left(program);
  }
}

// A signal kills a rank that does not handle signals yet. The other ranks then lose that rank,
// which does not count as a failure.
TEST(Processes, ARankThatIsKilledByTheFirstSignalIsStoppedLikeTheOthers) {
  Program program(
      processes(2, {"1:ignore=15", "out=ready", "1:sleep=700", "1:exit=4", "sleep=50000"}));
  program.wait_for("ready", 2);
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 143) << program.err();
  expect_nothing_left(program);
}

TEST(Processes, TheSecondSignalEndsThemAtOnce) {
  Program program(processes(2, {"train=50000"}));
  program.wait_for("training", 2);
  program.send(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(seconds(2)), 143);
  EXPECT_EQ(count(program.err(), "saved"), 0);
  expect_nothing_left(program);
}

TEST(Processes, AReaderThatDoesNotReadKeepsNoSignalAway) {
  Program program(processes(2, {"1:err=writing", "1:lines=30000", "train=0"}), {},
                  Output::kUnreadPipe);
  program.wait_for("writing");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 143);
  expect_nothing_left(program);
}

// The ranks finish their work, and are not restarted because of the output.
TEST(Processes, AnOutputThatTakesNothingIsAnErrorOfItsOwn) {
  for (const Output output : {Output::kFullDisk, Output::kBrokenPipe}) {
    Program program(processes(2, {"out=result", "lines=3000", "err=done"}, 2), {}, output);
    EXPECT_EQ(program.wait(), 5);
    EXPECT_EQ(count(program.err(), "] done"), 2) << program.err();
    EXPECT_THAT(program.err(), HasSubstr("cannot write what the ranks print"));
    EXPECT_THAT(program.err(), Not(HasSubstr("restart")));
    expect_nothing_left(program);
  }
}

TEST(Processes, TheNextLauncherRemovesWhatKilledOnesHaveLeft) {
  namespace fs = std::filesystem;
  std::string shared = testing::TempDir() + "left_folders_XXXXXX";
  ASSERT_NE(mkdtemp(shared.data()), nullptr);
  const auto folders = [&] {
    return std::distance(fs::directory_iterator(shared), fs::directory_iterator());
  };
  const auto start = [&](const Words& actions) {
    auto program = std::make_unique<Program>(
        processes(2, actions), std::map<std::string, std::string>{{"TMPDIR", shared}});
    program->wait_for("ready", 2);
    return program;
  };
  fs::create_directory(shared + "/runtime-job-aFile");  // not a folder of a launcher
  const auto living = start({"err=ready", "sleep=50000"});
  for (int i = 0; i < 10; ++i) {
    const auto killed = start({"err=ready", "sleep=50000"});
    killed->send(SIGKILL);
    killed->wait();
  }
  EXPECT_EQ(folders(), 3) << "each launcher removes what the one before has left";
  EXPECT_EQ(start({"err=ready"})->wait(), 0);
  EXPECT_EQ(folders(), 2) << "those that live keep theirs";
  living->send(SIGTERM);
  EXPECT_EQ(living->wait(), 128 + SIGTERM);
  EXPECT_EQ(folders(), 1);
  fs::remove_all(shared);
}

TEST(Processes, ARankThatFailsGivesItsExitCodeAndEndsTheOthers) {
  Program program(processes(3, {"1:exit=5", "sleep=50000"}));
  EXPECT_EQ(program.wait(), 5);
  EXPECT_THAT(program.err(),
              testing::ContainsRegex("error: rank 1 \\(pid [0-9]+\\) ended with exit code 5"));
  expect_nothing_left(program);
}

// As when a plugin calls _exit: a user of the launcher could not know what the exit code means.
TEST(Processes, ARankThatEndsWithACodeOfNobodysIsLost) {
  for (const std::string code : {"1", "7", "127"}) {
    Program program(processes(2, {"1:exit=" + code, "sleep=50000"}));
    EXPECT_EQ(program.wait(), 4);
    EXPECT_THAT(program.err(), HasSubstr("ended with exit code " + code));
    expect_nothing_left(program);
  }
}

// Many ranks say much in the meantime.
TEST(Processes, TheCauseIsTheLastLineOfAJobOfManyRanks) {
  Program program(processes(9, {"2:raise=9", "sleep=300", "err=lost rank 2", "exit=4"}));
  EXPECT_EQ(program.wait(), 4);
  EXPECT_THAT(program.err(),
              testing::ContainsRegex("\nerror: the job has ended because rank 2 \\(pid [0-9]+\\) "
                                     "was killed by signal 9 \\(SIGKILL\\)\n$"));
  // Those that end because they have waited for rank 2 are not the cause.
  Program stopped(processes(9, {"2:raise=19", "sleep=300", "exit=4"}));
  EXPECT_EQ(stopped.wait(), 4);
  EXPECT_THAT(stopped.err(),
              testing::ContainsRegex("\nerror: the job has ended because rank 2 \\(pid [0-9]+\\) "
                                     "is stopped, as by SIGSTOP\n$"));
  Program few(processes(3, {"2:raise=9", "sleep=300", "exit=4"}));
  EXPECT_EQ(few.wait(), 4);
  EXPECT_THAT(few.err(), Not(HasSubstr("the job has ended because")));
}

TEST(Processes, AKilledRankIsNamedAndSurvivorsCanSaySomething) {
  Program program(processes(3, {"2:raise=9", "sleep=500", "err=lost rank 2", "exit=4"}));
  EXPECT_EQ(program.wait(), 4);
  EXPECT_THAT(program.err(),
              testing::ContainsRegex(
                  "error: rank 2 \\(pid [0-9]+\\) was killed by signal 9 \\(SIGKILL\\)"));
  EXPECT_THAT(program.err(), HasSubstr("[rank 0] lost rank 2"));
  EXPECT_THAT(program.err(), HasSubstr("[rank 1] lost rank 2"));
  expect_nothing_left(program);
}

// Rank 1 closes its connections before it fails; rank 0 notices the closed connections first.
TEST(Processes, ALaterCauseReplacesALostRank) {
  Program program(processes(2, {"0:exit=4", "1:sleep=300", "1:exit=3"}));
  EXPECT_EQ(program.wait(), 3);
}

TEST(Processes, ARankThatIgnoresSigtermIsKilled) {
  Program program(
      processes(2, {"0:ignore=15", "0:out=ready", "1:sleep=300", "1:exit=3", "sleep=50000"}));
  EXPECT_EQ(program.wait(), 3);
  EXPECT_THAT(program.err(), HasSubstr("rank 0 did not end after SIGTERM: killed"));
  expect_nothing_left(program);
}

TEST(Processes, AStoppedRankIsKilled) {
  Program program(processes(2, {"0:raise=19", "1:sleep=300", "1:exit=4"}));
  EXPECT_EQ(program.wait(), 4);
  expect_nothing_left(program);
}

// As when a plugin hangs at the end: the other ranks are done, and no collective waits for this
// one.
TEST(Processes, ARankThatHangsWhenTheOthersHaveEndedIsLost) {
  Program program(processes(3, {"1:sleep=50000", "err=over"}));
  EXPECT_EQ(program.wait(seconds(18)), 4);
  EXPECT_THAT(program.err(), HasSubstr("rank 1 has not ended 8 s after another rank has ended"));
  expect_nothing_left(program);
}

// The other ranks are done, so none of them notices the stopped one.
TEST(Processes, ARankThatIsStoppedWhenTheOthersHaveEndedIsLost) {
  Program program(processes(3, {"1:raise=19", "err=over"}));
  EXPECT_EQ(program.wait(seconds(10)), 4);
  EXPECT_THAT(program.err(), testing::ContainsRegex("rank 1 \\(pid [0-9]+\\) is stopped"));
  expect_nothing_left(program);
}

TEST(Processes, ARankThatGoesOnInTimeIsNotLost) {
  Program program(processes(2, {"1:sleep=2500", "err=over"}));
  EXPECT_EQ(program.wait(seconds(10)), 0);
}

TEST(Processes, AChildThatARankLeavesIsEnded) {
  Program program(processes(2, {"1:child"}));
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(program.err(), HasSubstr("child "));
  expect_nothing_left(program);
}

TEST(Processes, NoRankOutlivesAKilledLauncher) {
  Program program(processes(3, {"0:raise=19", "1:ignore=15", "err=ready", "sleep=50000"}));
  program.wait_for("ready", 2);
  EXPECT_EQ(program.processes().size(), 4);
  program.send(SIGKILL);
  EXPECT_EQ(program.wait(), 128 + SIGKILL);
  EXPECT_TRUE(program.all_gone(seconds(5)));
}

TEST(Processes, ALostRankStartsAllAgainWithANewRendezvous) {
  Program program(processes(2, {"1:fail_twice=4", "sleep=200", "show"}, 3));
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(program.err(), HasSubstr("restart 1 of 3\n"));
  EXPECT_THAT(program.err(), HasSubstr("restart 2 of 3\n"));
  EXPECT_THAT(program.err(), Not(HasSubstr("restart 3 of 3")));
  expect_nothing_left(program);
}

TEST(Processes, RestartsHaveAnEnd) {
  Program program(processes(2, {"1:raise=9", "sleep=50000"}, 1));
  EXPECT_EQ(program.wait(), 4);
  EXPECT_EQ(count(program.err(), "was killed by signal 9"), 2);
  EXPECT_EQ(count(program.err(), "restart"), 1);
}

TEST(Processes, OtherFailuresAndStopsAreNotRestarted) {
  Program failed(processes(2, {"1:exit=5"}, 3));
  EXPECT_EQ(failed.wait(), 5);
  Program stopped(processes(2, {"train=0"}, 3));
  stopped.wait_for("training", 2);
  stopped.send(SIGTERM);
  EXPECT_EQ(stopped.wait(), 143);
  EXPECT_EQ(count(failed.err() + stopped.err(), "restart"), 0);
}

TEST(Processes, WhatCannotBeStartedIsSaid) {
  Program no_folder(processes(2, {"show"}), {{"TMPDIR", "/dev/null/folder"}});
  EXPECT_EQ(no_folder.wait(), 4);
  EXPECT_THAT(no_folder.err(), HasSubstr("/dev/null/folder"));
  EXPECT_THAT(no_folder.err(), HasSubstr("set TMPDIR"));
}

}  // namespace
}  // namespace runtime::launch::test
