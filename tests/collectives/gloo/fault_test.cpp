// Faults of jobs over Gloo: ranks that are killed, stopped or absent, and foreign clients.
// fault_rank.cpp defines what each rank must see.
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/collectives/support/job.h"

namespace collectives::testing {
namespace {

using namespace std::chrono_literals;

JobOptions scenario(const std::string& name, int ranks,
                    const std::vector<std::string>& options = {}) {
  JobOptions job{.command = {FAULT_RANK, GLOO_PLUGIN, name}, .ranks = ranks, .limit = 60s};
  job.command.insert(job.command.end(), options.begin(), options.end());
  return job;
}

// All ranks but the last succeed. The last one ends with `status`; it is killed if it does not end.
void expect_survivors(const std::string& name, int ranks, int status,
                      const std::vector<std::string>& options = {}) {
  Job job(scenario(name, ranks, options));
  for (int rank = 0; rank < ranks - 1; ++rank) {
    for (int i = 0; i < 6000 && !job.has_ended(rank); ++i) std::this_thread::sleep_for(10ms);
  }
  job.send_signal(ranks - 1, SIGKILL);
  const auto ends = job.wait();
  for (int rank = 0; rank < ranks - 1; ++rank) {
    const ProcessEnd& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.status, 0) << "rank " << rank << ":\n" << end.output;
  }
  EXPECT_EQ(ends.back().status, status) << ends.back().output;
}

constexpr int kKilled = 128 + SIGKILL;

TEST(GlooFaults, KilledRankOfTwo) { expect_survivors("killed_reducing", 2, kKilled); }
TEST(GlooFaults, KilledRankOfFour) { expect_survivors("killed_reducing", 4, kKilled); }
TEST(GlooFaults, KilledRankThatNobodyWaitsFor) { expect_survivors("killed_idle", 3, kKilled); }
TEST(GlooFaults, KilledRankOfSplit) { expect_survivors("killed_in_split", 4, kKilled); }
TEST(GlooFaults, RankThatDoesNotComeToASplit) { expect_survivors("absent_from_split", 3, kKilled); }
TEST(GlooFaults, KilledRankAmongMessages) {
  expect_survivors("killed_reducing", 3, kKilled, {"shared_memory=off"});
}
TEST(GlooFaults, KilledRankOfSeveralHosts) {
  expect_survivors("killed_reducing", 4, kKilled, {"ranks_per_host=2"});
}
TEST(GlooFaults, StoppedRankOfSeveralHosts) {
  expect_survivors("stopped", 4, kKilled, {"ranks_per_host=2"});
}
TEST(GlooFaults, StoppedRankOfTwo) { expect_survivors("stopped", 2, kKilled); }
TEST(GlooFaults, StoppedRankOfThree) { expect_survivors("stopped", 3, kKilled); }
TEST(GlooFaults, StrangersOnThePorts) { expect_survivors("strangers", 3, kKilled); }
TEST(GlooFaults, RanksThatDisagree) { expect_success(scenario("disagreeing", 2)); }
TEST(GlooFaults, RanksThatDisagreeInTheWay) { expect_success(scenario("disagreeing_in_way", 2)); }
TEST(GlooFaults, RanksOfSeveralHostsThatDisagreeInTheWay) {
  expect_success(scenario("disagreeing_in_way", 3, {"ranks_per_host=2"}));
}
TEST(GlooFaults, LateRank) { expect_success(scenario("late", 3)); }
TEST(GlooFaults, AbsentRank) { expect_success(scenario("absent", 3)); }
TEST(GlooFaults, RankThatLeft) { expect_success(scenario("left", 3)); }
TEST(GlooFaults, DestroyedWithUnfinishedWork) { expect_success(scenario("destroyed", 2)); }
TEST(GlooFaults, MessagesPassACollective) { expect_success(scenario("passing", 2)); }
TEST(GlooFaults, RefusedInterfaces) { expect_success(scenario("refused_interfaces", 1)); }
TEST(GlooFaults, UnreachableRank) { expect_success(scenario("unreachable", 1)); }

}  // namespace
}  // namespace collectives::testing
