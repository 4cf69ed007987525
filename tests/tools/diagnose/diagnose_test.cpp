// Checks that files of ranks are joined, and that the rank that owes a call is named.
#include "tools/diagnose/diagnose.h"

#include <gmock/gmock.h>

#include <fstream>

#include "runtime/error.h"
#include "tests/runtime/support/devices.h"

namespace tools::diagnose {
namespace {

namespace watch = runtime::watch;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int64_t kSecond = 1'000'000'000, kNow = 2'000'000'000 * kSecond;

watch::CollectiveRecord call(uint64_t number, bool complete) {
  watch::CollectiveRecord r{.sequence = number, .kind = RT_ALL_REDUCE, .dtype = RT_FLOAT32};
  r.reduction = RT_SUM;
  r.count = 100;
  r.number = number;
  r.start_ns = r.wait_ns = kNow - 20 * kSecond;
  if (complete) r.end_ns = kNow - 19 * kSecond;
  r.set_label("bucket " + std::to_string(number));
  return r;
}

// A rank that waits in call `number`, or that has completed all before it and waits for nobody.
watch::CollectivesFile rank(int rank, uint64_t number, bool waits) {
  watch::CollectivesFile file{
      .rank = rank, .world_size = 3, .host = "node-" + std::to_string(rank)};
  file.written_ns = kNow;
  file.communicators = {{"the data axis", {0, 1, 2}}};
  for (uint64_t n = 1; n < number; ++n) file.records.push_back(call(n, true));
  if (waits) file.records.push_back(call(number, false));
  return file;
}

TEST(Diagnose, NamesTheRankThatOwesACall) {
  const Files files = {rank(0, 5, true), rank(1, 5, true), rank(2, 5, false)};
  EXPECT_THAT(verdict_of(files),
              AllOf(StartsWith("rank 2 (node-2) of 3 is stuck: it answers, but has not taken part "
                               "in all_reduce #5 of the data axis (100 float32, bucket 5)"),
                    HasSubstr("was not complete after 20 s"),
                    HasSubstr("rank 2 (node-2) had completed #4 and not started #5")));
  EXPECT_THAT(table_of(files),
              AllOf(HasSubstr("rank 0 (node-0): waits in all_reduce #5 of the data axis (100 "
                              "float32, bucket 5) for 20 s\n"),
                    HasSubstr("rank 2 (node-2): waits for nobody; has completed all_reduce #4")));
}

TEST(Diagnose, NamesARankThatHasLeftNothing) {
  EXPECT_THAT(verdict_of({rank(0, 5, true), rank(2, 5, true)}),
              StartsWith("rank 1 (unknown machine) of 3 is lost: it does not answer"));
}

TEST(Diagnose, ReadsWhatAnotherRankHasWrittenForALostOne) {
  Files files = {rank(0, 5, true), rank(1, 4, true), rank(2, 5, true)};
  files[1].lost = true;
  EXPECT_THAT(verdict_of(files), AllOf(StartsWith("rank 1 (node-1) of 3 is lost"),
                                       HasSubstr("had completed #3 and started #4")));
  EXPECT_THAT(table_of(files), HasSubstr("rank 1 (node-1) (lost): waits in all_reduce #4"));
}

TEST(Diagnose, NamesCallsThatDiffer) {
  Files files = {rank(0, 5, true), rank(1, 5, true), rank(2, 5, true)};
  files[2].records.back().count = 7;
  EXPECT_THAT(verdict_of(files),
              AllOf(StartsWith("the ranks disagree on their calls"), HasSubstr("(7 float32")));
}

class Folder : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
  }
  void write(const watch::CollectivesFile& file) const {
    write("rank-" + std::to_string(file.rank) + "-collectives.json", to_json(file));
  }
  std::string refused() {
    try {
      read_folder(folder_.path(), left_out_);
    } catch (const runtime::DataError& error) {
      return error.what();
    }
    return "";
  }
  runtime::test::TemporaryFolder folder_;
  std::string left_out_;
};

TEST_F(Folder, IsReadInTheOrderOfRanks) {
  for (const int r : {2, 0, 1}) write(rank(r, 5, r != 2));
  write("rank-0-collectives.txt", "other files are left alone");
  const Files files = read_folder(folder_.path(), left_out_);
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[2].rank, 2);
  EXPECT_THAT(verdict_of(files), StartsWith("rank 2 (node-2) of 3 is stuck"));
}

// Those of more ranks, before the job went on with fewer, are no error.
TEST_F(Folder, OldFilesOfAnotherNumberOfRanksAreLeftOut) {
  for (const int r : {0, 1, 2}) write(rank(r, 5, r != 1));
  watch::CollectivesFile old = rank(3, 5, true);
  old.world_size = 4;
  old.written_ns -= 90 * kSecond;
  write(old);
  EXPECT_EQ(read_folder(folder_.path(), left_out_).size(), 3u);
  EXPECT_THAT(left_out_, StartsWith("rank 3 has written its file 90 s before"));
}

// Rank 1 does not answer the second question.
TEST_F(Folder, AFileOfAnEarlierQuestionIsLeftOut) {
  for (const int r : {0, 1, 2}) {
    watch::CollectivesFile file = rank(r, 5, r != 1);
    if (r == 1) file.written_ns -= 90 * kSecond;
    write(file);
  }
  const Files files = read_folder(folder_.path(), left_out_);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(left_out_,
            "rank 1 has written its file 90 s before the newest one (by the clocks of the "
            "machines), so that it is left out\n");
  EXPECT_THAT(verdict_of(files), StartsWith("rank 1 (unknown machine) of 3 is lost"));
}

TEST_F(Folder, ErrorsNameTheFile) {
  EXPECT_THAT(refused(), HasSubstr("has no rank-*-collectives.json"));
  write("rank-7-collectives.json", "{}");
  EXPECT_THAT(refused(), AllOf(HasSubstr("rank-7-collectives.json"), HasSubstr("not found")));
  write("rank-7-collectives.json", to_json(rank(1, 2, false)));
  write(rank(1, 2, false));
  EXPECT_THAT(refused(), HasSubstr("the files are of several jobs"));
}

TEST(Diagnose, AFolderThatIsNotThere) {
  try {
    std::string ignored;
    read_folder("/nowhere", ignored);
    FAIL();
  } catch (const runtime::DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nowhere: cannot be read: No such file"));
  }
}

}  // namespace
}  // namespace tools::diagnose
