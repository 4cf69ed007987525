// Faults of jobs over MPI, with each MPI library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/collectives/mpi/library.h"

namespace collectives::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class MpiFaults : public ::testing::TestWithParam<MpiLibrary> {
 protected:
  ProcessEnd play(const std::string& scene, int ranks = 2) {
    JobOptions options = mpi_job(GetParam(), ranks, {FAULTS_RANK, GetParam().plugin, scene});
    options.limit = 50s;
    return Job(options).wait().front();
  }
};

INSTANTIATE_TEST_SUITE_P(Libraries, MpiFaults, ::testing::ValuesIn(mpi_libraries()),
                         [](const auto& info) { return info.param.name; });

TEST_P(MpiFaults, AKilledRankEndsTheJob) {
  const ProcessEnd end = play("killed");
  EXPECT_NE(end.status, 0);
  EXPECT_NE(end.status, ProcessEnd::kNotEnded) << end.output;
}

TEST_P(MpiFaults, AWaitForAStoppedRankTimesOut) {
  const ProcessEnd end = play("stopped");
  EXPECT_NE(end.status, ProcessEnd::kNotEnded) << end.output;
  EXPECT_THAT(end.output, HasSubstr("rank 0: timeout:"));
}

TEST_P(MpiFaults, AWaitForAnAllReduceThatHangsTimesOut) {
  const ProcessEnd end = play("stopped_inside");
  EXPECT_NE(end.status, ProcessEnd::kNotEnded) << end.output;
  EXPECT_THAT(end.output, HasSubstr("rank 0: timeout:"));
}

TEST_P(MpiFaults, AMissingRankIsNamed) {
  const ProcessEnd end = play("missing", 3);
  EXPECT_NE(end.status, ProcessEnd::kNotEnded) << end.output;
  EXPECT_THAT(end.output, AllOf(HasSubstr("timeout:"), HasSubstr("did not join in time: 1")));
}

TEST_P(MpiFaults, WithoutALauncherTheErrorSaysWhatToDo) {
  JobOptions options{.command = {FAULTS_RANK, GetParam().plugin, "none"}, .ranks = 2};
  Job job(options);
  for (const ProcessEnd& end : job.wait()) {
    EXPECT_EQ(end.status, 4);
    EXPECT_THAT(end.output, AllOf(HasSubstr("mpirun -n 2"), HasSubstr("--nproc 2")));
  }
}

TEST_P(MpiFaults, OneRankNeedsNoLauncher) {
  expect_success({.command = {FAULTS_RANK, GetParam().plugin, "none"}});
}

// Both ranks detect the wrong number, but Open MPI 5 kills the other rank as soon as one has
// failed, so only one of the two error messages is required.
TEST_P(MpiFaults, AWrongNumberOfRanksIsNamed) {
  EXPECT_THAT(play("wrong_size").output, AllOf(ContainsRegex("rank [01] of 3 was asked for"),
                                               ContainsRegex("rank [01] of 2")));
}

TEST_P(MpiFaults, RanksThatCreateDifferentCommunicatorsAreTold) {
  EXPECT_THAT(play("prefixes").output, HasSubstr("different communicators"));
}

TEST_P(MpiFaults, AnUnmatchedReceiveHoldsUpNothing) {
  const ProcessEnd end = play("unmatched_receive");
  EXPECT_EQ(end.status, 0) << end.output;
  EXPECT_THAT(end.output, HasSubstr("rank 0: got 7.000000 8.000000"));
}

TEST_P(MpiFaults, AMessageOfAnotherSizeFailsAlone) {
  const ProcessEnd many = play("too_many"), few = play("too_few");
  EXPECT_EQ(many.status, 0);
  EXPECT_THAT(many.output, AllOf(HasSubstr("passed more elements"), HasSubstr("goes on with 2")));
  EXPECT_EQ(few.status, 0);
  EXPECT_THAT(few.output, AllOf(HasSubstr("rank 1 sent 4 elements, 10 were expected"),
                                HasSubstr("goes on with 2")));
}

TEST_P(MpiFaults, AbortFailsWhatHasNotBegun) {
  const ProcessEnd end = play("aborted");
  EXPECT_NE(end.status, ProcessEnd::kNotEnded) << end.output;
  EXPECT_THAT(end.output, AllOf(HasSubstr("given up"), HasSubstr("was aborted")));
}

TEST_P(MpiFaults, MpiStartsOnceAProcess) {
  EXPECT_THAT(play("again").output, HasSubstr("can start once only"));
}

}  // namespace
}  // namespace collectives::testing
