// Ranks started by the mpiexec of Open MPI and of MPICH, where they are installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "runtime/launch/process_tree.h"
#include "tests/runtime/launch/program.h"

namespace runtime::launch::test {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;

class Mpi : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (access(("/usr/bin/" + std::string(GetParam())).c_str(), X_OK) != 0)
      GTEST_SKIP() << GetParam() << " is not installed";
  }
  static std::map<std::string, std::string> mpiexec() { return {{"TEST_MPIEXEC", GetParam()}}; }
};

INSTANTIATE_TEST_SUITE_P(Launchers, Mpi, testing::Values("mpiexec.openmpi", "mpiexec.mpich"),
                         [](const auto& info) { return std::string(info.param).substr(8); });

TEST_P(Mpi, EachRankKnowsItself) {
  Program program({"mpi", "3", "0", "show"}, mpiexec());
  EXPECT_EQ(program.wait(), 0);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string r = std::to_string(rank);
    EXPECT_THAT(program.err(), HasSubstr("rank " + r + " of 3, local " + r + " of 3"));
  }
  EXPECT_THAT(program.processes(), IsEmpty());
}

TEST_P(Mpi, TheFirstSignalReachesTheRanks) {
  Program program({"mpi", "2", "0", "train=0"}, mpiexec());
  program.wait_for("training", 2);
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 143);
  EXPECT_THAT(program.err(), HasSubstr("saved"));
  EXPECT_THAT(program.processes(), IsEmpty());
}

TEST_P(Mpi, TheSecondSignalEndsThem) {
  Program program({"mpi", "2", "0", "train=50000"}, mpiexec());
  program.wait_for("training", 2);
  program.send(SIGINT);
  usleep(200'000);
  program.send(SIGINT);
  EXPECT_EQ(program.wait(), 130);
  EXPECT_THAT(program.processes(), IsEmpty());
}

TEST_P(Mpi, ExitCodesArePassedOn) {
  Program program({"mpi", "2", "0", "1:exit=5", "exit=5"}, mpiexec());
  EXPECT_EQ(program.wait(), 5) << program.err();
}

TEST_P(Mpi, AKilledRankIsCommunicationAndStartsAllAgain) {
  Program program({"mpi", "2", "1", "1:raise=9", "sleep=50000"}, mpiexec());
  EXPECT_EQ(program.wait(), 4) << program.err();
  EXPECT_THAT(program.err(), HasSubstr("restart 1 of 1"));
  EXPECT_THAT(program.processes(), IsEmpty());
}

TEST_P(Mpi, NoRankOutlivesAKilledLauncher) {
  Program program({"mpi", "2", "0", "0:ignore=15", "out=ready", "sleep=50000"}, mpiexec());
  program.wait_for("ready", 2);
  program.send(SIGKILL);
  EXPECT_TRUE(program.all_gone(seconds(10)));
}

TEST_P(Mpi, NoRankOutlivesAKilledMpiexec) {
  Program program({"mpi", "2", "0", "with_parent", "out=ready", "sleep=50000"}, mpiexec());
  program.wait_for("ready", 2);
  program.send(SIGSTOP);  // a running launcher would end the ranks
  for (const pid_t process : program.processes())
    if (parent_of(process) == program.pid()) kill(process, SIGKILL);
  const auto only_launcher = [&] { return program.processes().size() <= 1; };
  for (int i = 0; i < 500 && !only_launcher(); ++i) usleep(10'000);
  EXPECT_TRUE(only_launcher());
  program.send(SIGCONT);
  EXPECT_EQ(program.wait(), 4) << program.err();
}

TEST(MpiexecMissing, IsSaidWithARemedy) {
  Program program({"mpi", "2", "0", "show"}, {{"TEST_MPIEXEC", "no-such-mpiexec"}});
  EXPECT_EQ(program.wait(), 2);
  EXPECT_THAT(program.err(), HasSubstr("'no-such-mpiexec': No such file or directory"));
  EXPECT_THAT(program.err(), HasSubstr("set launch.mpiexec"));
}

// If unknown ranks were accepted, each of them would start an mpiexec.
TEST(MpiexecUnknown, RanksThatCannotKnowThemselvesAreRefused) {
  Program program({"mpi", "2", "0", "show"}, {{"TEST_MPIEXEC", LAUNCH_FAKE_MPIEXEC}});
  EXPECT_EQ(program.wait(), 2);
  EXPECT_THAT(program.err(), HasSubstr("mpiexec was to start 2 ranks"));
}

}  // namespace
}  // namespace runtime::launch::test
