// Jobs that go on without ranks that are lost for good.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "tests/runtime/launch/program.h"

namespace runtime::launch::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Words elastic(int ranks, int min_ranks, const Words& actions, int max_restarts = 0) {
  Words words = {"elastic", std::to_string(ranks), std::to_string(max_restarts),
                 std::to_string(min_ranks)};
  words.insert(words.end(), actions.begin(), actions.end());
  return words;
}

TEST(ElasticTest, TheOthersGoOnWithoutTheRankThatWasKilled) {
  Program program(elastic(4, 3, {"3:raise=9", "show"}));
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.err(), HasSubstr("rank 3 is left out: 3 of 4 ranks go on"));
  EXPECT_THAT(program.err(), HasSubstr("slots 0 1 2\n"));
  EXPECT_THAT(program.err(), HasSubstr("[rank 2] rank 2 of 3, local 2 of 3"));
  EXPECT_THAT(program.processes(), IsEmpty());
}

TEST(ElasticTest, TheRanksKeepTheirSlots) {
  Program program(elastic(3, 1, {"1:fail_once=77"}));
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.err(), HasSubstr("rank 1 is left out: 2 of 3 ranks go on"));
  EXPECT_THAT(program.err(), HasSubstr("slots 0 2\n"));
}

TEST(ElasticTest, FirstAllAreStartedAgainAsOftenAsAllowed) {
  Program program(elastic(3, 2, {"2:raise=9"}, 2));
  EXPECT_EQ(program.wait(), 0) << program.err();
  const size_t second = program.err().find("restart 2 of 2");
  ASSERT_NE(second, std::string::npos) << program.err();
  EXPECT_GT(program.err().find("rank 2 is left out: 2 of 3"), second) << program.err();
}

TEST(ElasticTest, ItEndsWhenFewerThanTheLeastAreLeft) {
  Program program(elastic(3, 2, {"0:raise=9"}));
  EXPECT_EQ(program.wait(), 4);
  EXPECT_EQ(count(program.err(), "is left out"), 1) << program.err();
  EXPECT_THAT(program.err(), HasSubstr("without rank 0 fewer ranks are left than "
                                       "launch.min_ranks = 2"));
}

// A rank that hangs says nothing; the others have ended because they miss it.
TEST(ElasticTest, ARankThatHangsIsTheOneThatStillRuns) {
  Program program(elastic(2, 1, {"0:fail_once=4", "1:sleep=50000"}));
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.err(), HasSubstr("rank 1 is left out: 1 of 2"));
}

TEST(ElasticTest, ALossOfAnUnknownRankEndsTheJob) {
  Program program(elastic(3, 1, {"exit=4"}));
  EXPECT_EQ(program.wait(), 4);
  EXPECT_THAT(program.err(), HasSubstr("it is not known which rank was lost"));
}

TEST(ElasticTest, ADeviceThatFailsIsLostOnceTheRanksHaveMet) {
  Program before(elastic(2, 1, {"1:exit=3", "sleep=50"}));
  EXPECT_EQ(before.wait(), 3) << before.err();
  EXPECT_THAT(before.err(), Not(HasSubstr("is left out")));
  Program after(elastic(2, 1, {"0:save", "1:sleep=300", "1:exit=3", "sleep=700"}));
  EXPECT_EQ(after.wait(), 0) << after.err();
  EXPECT_THAT(after.err(), HasSubstr("rank 1 is left out"));
}

TEST(ElasticTest, AConfigurationThatIsWrongIsNoLoss) {
  Program program(elastic(2, 1, {"0:save", "1:exit=2"}));
  EXPECT_EQ(program.wait(), 2);
  EXPECT_THAT(program.err(), Not(HasSubstr("is left out")));
}

// The other ranks end after a checkpoint, and all begin again.
TEST(ElasticTest, ARankThatIsBackIsTakenInAfterACheckpoint) {
  Program program(elastic(3, 1, {"2:fail_once=77", "save", "out=working", "train=0"}));
  program.wait_for("rank 2 is left out");
  program.wait_for("working", 2);
  program.make_file("back");
  program.wait_for("all 3 ranks go on");
  program.wait_for("[rank 2] training");
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 143) << program.err();
}

TEST(ElasticTest, ARankThatIsNotBackStaysOut) {
  Program program(elastic(2, 1, {"1:raise=9", "save", "sleep=400"}));
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.err(), Not(HasSubstr("can be used again")));
}

// A job that the user has sent SIGUSR1 ends, whatever ranks it has.
TEST(ElasticTest, TheUsersSignalEndsTheJobAfterACheckpoint) {
  Program program(elastic(2, 1, {"train=0"}));
  program.wait_for("training", 2);
  program.send(SIGUSR1);
  EXPECT_EQ(program.wait(), 128 + SIGUSR1) << program.err();
}

TEST(ElasticTest, OtherSignalsStillStopIt) {
  Program program(elastic(2, 1, {"train=50000"}));
  program.wait_for("training", 2);
  program.send(SIGUSR1);
  program.send(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 143) << program.err();
}

}  // namespace
}  // namespace runtime::launch::test
