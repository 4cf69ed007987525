// Ranks with different configurations.
#include "tests/end_to_end/faults/job.h"
#include "tests/runtime/exec/local_ranks.h"

namespace runtime::faults {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

class RanksDisagree : public JobTest {
 protected:
  void SetUp() override {
    if (!has_plugin("gloo")) GTEST_SKIP() << "no plugin gloo here";
  }
  // Both ranks end before the first step and print the values that differ.
  void expect_refused(const std::string& rank_0, const std::string& rank_1) {
    const Process first = rank(0, 2, {kEndless, rank_0}), second = rank(1, 2, {kEndless, rank_1});
    for (const Process* process : {&first, &second}) {
      const ProcessResult r = (*process)->wait(seconds(30));
      EXPECT_EQ(r.exit_code, 4) << r.err;
      EXPECT_THAT(r.err, AllOf(HasSubstr("rank 0 has"), HasSubstr("rank 1 has"))) << rank_0;
      EXPECT_EQ(r.out, "");
    }
  }
};

TEST_F(RanksDisagree, OnBuckets) { expect_refused("comm.bucket_mb=1", "comm.bucket_mb=2"); }
TEST_F(RanksDisagree, OnTheBatch) {
  expect_refused("training.global_batch_size=8", "training.global_batch_size=16");
}
TEST_F(RanksDisagree, OnTheModel) {
  expect_refused("model.layers=[{type=\"linear\",features=3}]",
                 "model.layers=[{type=\"linear\",features=4}]");
}
TEST_F(RanksDisagree, OnTheData) { expect_refused("dataset.samples=60", "dataset.samples=61"); }

TEST(CollectivesCheck, ACallThatDiffersNamesBothSides) {
  const std::vector<std::string> errors = exec::on_local_ranks(
      2,
      [](exec::LocalRank& local) {
        std::vector<double> values(8);
        exec::CollectiveCall call;
        call.name = "values";
        call.collective =
            plugins::host::make_collective(RT_ALL_REDUCE, RT_FLOAT64, values.data(), values.data(),
                                           local.rank == 1 ? 7 : 8, RT_SUM);
        plugins::host::Stream stream = test::open_device("reference")->create_stream();
        local.collectives.start(call, stream);
        local.collectives.wait(call, stream);
      },
      true);
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("rank 0 has"), HasSubstr("(8 float64)"),
                             HasSubstr("rank 1 has"), HasSubstr("(7 float64)")));
}

}  // namespace
}  // namespace runtime::faults
