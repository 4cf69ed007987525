// The rules of the liveness check, with a clock of the test and ranks that are numbers.
#include "collectives/mesh/liveness_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

namespace collectives::mesh {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Counts the probe. A rank answers at once with the number in `progress`, unless it is in
// `slow`; then release() lets it answer.
class Ranks final : public LivenessProbe {
 public:
  void set_progress(int64_t progress) override { own = progress; }
  void ask(int peer) override {
    ++asked[peer];
    EXPECT_TRUE(!waiting[peer]) << "rank " << peer << " is asked again before it has answered";
    answers.erase(peer);
    waiting[peer] = true;
    if (!slow[peer]) release(peer);
  }
  std::optional<int64_t> answer(int peer) override {
    return answers.contains(peer) ? std::optional<int64_t>(answers[peer]) : std::nullopt;
  }
  void release(int peer) {
    waiting[peer] = false;
    answers[peer] = progress.contains(peer) ? progress[peer] : own;
  }

  int64_t own = 0;
  std::map<int, int64_t> progress, answers;
  std::map<int, int> asked;
  std::map<int, bool> waiting, slow;
};

class RollCallTest : public testing::Test {
 protected:
  // Lets so much time pass, as the thread that waits for a collective does.
  static int pass(LivenessCheck& calls, LivenessCheck::Time& now, milliseconds time) {
    int times = 0;
    for (const LivenessCheck::Time end = now + time; now < end; now += milliseconds(10)) {
      if (now < calls.next()) continue;
      calls.go_on(now);
      ++times;
    }
    return times;
  }
  static std::vector<int> names(int size) {
    std::vector<int> list(static_cast<std::size_t>(size));
    std::iota(list.begin(), list.end(), 0);
    return list;
  }

  Ranks ranks_;
  LivenessCheck::Time now_{std::chrono::hours(1)};
};

TEST_F(RollCallTest, ARankThatDoesNotAnswerIsNamedAndAskedOnce) {
  LivenessCheck calls(ranks_, 0, 4);
  calls.count_call(false);
  ranks_.slow[2] = true;
  pass(calls, now_, milliseconds(60'000));
  EXPECT_EQ(calls.late(names(4)), "rank 2 does not answer");
  EXPECT_EQ(calls.silent(), 2);
  EXPECT_EQ(ranks_.asked[2], 1);
  EXPECT_GT(ranks_.asked[1], 5);
}

TEST_F(RollCallTest, ALateAnswerIsTakenAndTheRankIsAskedAgain) {
  LivenessCheck calls(ranks_, 0, 4);
  calls.count_call(false);
  ranks_.slow[2] = true;
  pass(calls, now_, milliseconds(1000));
  calls.count_call(false);
  ranks_.progress[2] = 0;  // the answer to the old question says how far rank 2 was
  ranks_.release(2);
  ranks_.progress.clear();
  ranks_.slow.clear();
  pass(calls, now_, milliseconds(2000));
  EXPECT_EQ(calls.late(names(4)), "");
  EXPECT_EQ(calls.silent(), std::nullopt);
  EXPECT_GT(ranks_.asked[2], 1);
}

TEST_F(RollCallTest, ARankThatIsBehindIsNamedWithItsNumber) {
  LivenessCheck calls(ranks_, 1, 3);
  calls.count_call(false);
  ranks_.progress[0] = ranks_.own;
  calls.count_call(false);
  pass(calls, now_, milliseconds(1000));
  EXPECT_EQ(calls.late(names(3)), "rank 0 has come to 1 collectives of 2");
}

TEST_F(RollCallTest, RanksThatWaitInDifferentPlacesDisagree) {
  LivenessCheck calls(ranks_, 1, 3);
  calls.count_call(false);
  ranks_.progress[2] = ranks_.own + 1;
  pass(calls, now_, milliseconds(1000));
  EXPECT_EQ(calls.disagrees(), 2);
}

TEST_F(RollCallTest, RoundsBecomeRarerTheLongerACallTakesAndTheMoreRanksThereAre) {
  LivenessCheck few(ranks_, 0, 4);
  few.count_call(false);
  const int first = pass(few, now_, milliseconds(4000)),
            second = pass(few, now_, milliseconds(4000));
  pass(few, now_, milliseconds(100'000));
  const int last = pass(few, now_, milliseconds(100'000));
  EXPECT_GT(first, second);
  EXPECT_LE(last, 2 * 12);
  Ranks many_ranks;
  LivenessCheck many(many_ranks, 0, 192);
  many.count_call(false);
  EXPECT_LT(pass(many, now_, milliseconds(4000)), first / 2);
}

TEST_F(RollCallTest, OfManyLateRanksTheFirstAreNamed) {
  LivenessCheck calls(ranks_, 0, 192);
  calls.count_call(false);
  for (int rank = 1; rank < 192; ++rank) ranks_.slow[rank] = true;
  pass(calls, now_, milliseconds(5000));
  const std::string text = calls.late(names(192));
  EXPECT_THAT(text, HasSubstr("rank 3 does not answer, and 188 more ranks are late"));
  EXPECT_LT(text.size(), 200u);
}

}  // namespace
}  // namespace collectives::mesh
