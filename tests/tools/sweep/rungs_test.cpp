// Checks which trials go on to the next rung.
#include "tools/sweep/rungs.h"

#include <gmock/gmock.h>

#include "tests/tools/sweep/files.h"

namespace tools::sweep {
namespace {

using testing::ElementsAre;

class Rungs : public testing::Test {
 protected:
  void add(int64_t trial, int64_t rung, std::optional<double> value) {
    Record r;
    r.trial = trial;
    r.rung = rung;
    r.status = value ? "done" : "failed";
    r.value = value;
    records_.add(r);
  }
  std::vector<int64_t> best(int64_t factor, bool maximize,
                            const std::vector<int64_t>& trials = {0, 1, 2, 3, 4, 5, 6}) {
    return promoted({"steps", {1, 2}, factor}, records_, trials, 0, maximize);
  }
  std::vector<int64_t> ranked(bool maximize) {
    std::vector<int64_t> numbers;
    for (const Record& record : ranking(records_, maximize)) numbers.push_back(record.trial);
    return numbers;
  }
  const Folder folder_;
  Records records_{folder_.path("sweep.jsonl")};
};

TEST_F(Rungs, TheBestOfThemGoOn) {
  const double values[] = {5, 1, 4, 1, 3, 2, 6};
  for (int64_t i = 0; i < 7; ++i) add(i, 0, values[i]);
  EXPECT_THAT(best(2, false), ElementsAre(1, 3, 5));
  EXPECT_THAT(best(3, false), ElementsAre(1, 3));
  EXPECT_THAT(best(7, false), ElementsAre(1)) << "of equal ones the first";
  EXPECT_THAT(best(100, false), ElementsAre(1)) << "at least one";
  EXPECT_THAT(best(3, true), ElementsAre(0, 6));
  EXPECT_THAT(best(2, false, {0, 2, 4, 6}), ElementsAre(2, 4));
}

TEST_F(Rungs, NoFailedTrialGoesOn) {
  for (int64_t i = 0; i < 7; ++i) add(i, 0, i == 4 ? std::optional(1.0) : std::nullopt);
  EXPECT_THAT(best(2, false), ElementsAre(4));
  add(4, 0, std::nullopt);
  EXPECT_THAT(best(2, false), ElementsAre());
}

TEST_F(Rungs, TheRankingPrefersLaterRungs) {
  add(0, 0, 1);
  add(1, 0, 9);
  add(2, 0, 3);
  add(3, 0, std::nullopt);
  add(4, 0, 2);
  EXPECT_THAT(ranked(false), ElementsAre(0, 4, 2, 1, 3));
  add(1, 1, 8);
  add(2, 1, 5);
  add(4, 1, std::nullopt);
  EXPECT_THAT(ranked(false), ElementsAre(2, 1, 0, 3, 4));
  EXPECT_THAT(ranked(true), ElementsAre(1, 2, 0, 3, 4));
}

}  // namespace
}  // namespace tools::sweep
