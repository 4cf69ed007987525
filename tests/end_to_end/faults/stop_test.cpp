// How a job of several ranks ends: by errors of all or of one, and when it is told to.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/end_to_end/faults/job.h"

namespace runtime::faults {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

class Ending : public JobTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (!has_plugin(GetParam())) GTEST_SKIP() << "the plugin " << GetParam() << " was not built";
  }
  bool processes_of_their_own() const { return std::string(GetParam()) != "local"; }
  Process training() {
    Process job = ranks(GetParam(), 3, {kEndless});
    EXPECT_TRUE(job->wait_for_text("\"step\":", seconds(30)));
    return job;
  }
  void expect_saved(const ProcessResult& result) {
    EXPECT_EQ(result.exit_code, 143) << result.err;
    EXPECT_THAT(result.err, HasSubstr("stopped by SIGTERM after step "));
    EXPECT_TRUE(std::filesystem::exists(path("run/weights.safetensors")));
    EXPECT_THAT(result.err, Not(HasSubstr("is lost")));
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, Ending, testing::Values("local", "gloo", "mpi"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Ending, ALossThatIsNoNumberIsSaidOnce) {
  const ProcessResult result =
      ranks(GetParam(), 3, {"optimizer.name=sgd", "optimizer.lr=1e30"})->wait(seconds(30));
  EXPECT_EQ(result.exit_code, 6) << result.err;
  const size_t first = result.err.find("error: the loss of step 2 is ");
  ASSERT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("the loss of step", first + 10), std::string::npos) << result.err;
}

TEST_P(Ending, ASignalForTheLauncherStopsAllAfterTheSameStep) {
  const Process job = training();
  job->send(SIGTERM);
  expect_saved(job->wait(seconds(20)));
}

TEST_P(Ending, ASignalForOneRankStopsAllAfterTheSameStep) {
  if (!processes_of_their_own()) GTEST_SKIP() << "ranks are threads of one process";
  const Process job = training();
  kill(pid_of(1), SIGTERM);
  expect_saved(job->wait(seconds(20)));
}

TEST_P(Ending, ASecondSignalDoesNotWait) {
  const Process job = training();
  if (processes_of_their_own()) kill(pid_of(1), SIGSTOP);  // so that they cannot agree on a step
  job->send(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  job->send(SIGTERM);
  EXPECT_EQ(job->wait(seconds(10)).exit_code, 143);
}

// The others are told and end; this one cannot.
TEST_P(Ending, ARankThatIsStoppedDoesNotKeepTheLauncher) {
  if (std::string(GetParam()) != "gloo") GTEST_SKIP() << "ranks that our launcher starts only";
  const Process job = training();
  kill(pid_of(1), SIGSTOP);
  job->send(SIGTERM);  // both wait for rank 1, and have not saved ...
  std::this_thread::sleep_for(milliseconds(500));
  for (const int rank : {0, 2}) kill(pid_of(rank), SIGTERM);  // ... and end by the second one
  const ProcessResult result = job->wait(seconds(10));
  EXPECT_EQ(result.exit_code, 143) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank 1 (pid "));
  EXPECT_THAT(result.err, HasSubstr("is stopped, as by SIGSTOP: killed"));
}

class DataOfOneRank : public JobTest {};

TEST_F(DataOfOneRank, ItsErrorIsTheJobsAndTheOthersSayWhy) {
  if (!has_plugin("gloo")) GTEST_SKIP() << "the plugin gloo was not built";
  job_ = folder_.write("table.toml", R"(
job.dump_folder = "run"
dataset.format = "csv"
dataset.path = "table.csv"
dataset.target = "y"
dataset.task = "regression"
model.input = [2]
model.layers = [ { type = "linear", features = 1 } ]
training.global_batch_size = 2
device.backend = "reference"
)");
  folder_.write("table.csv", "a,b,y\n1,2,3\n2,3,4\n3,4,5\n");
  const Process good = rank(0, 2), bad = rank(1, 2, {"dataset.path=elsewhere/table.csv"});
  const ProcessResult of_bad = bad->wait(seconds(20)), of_good = good->wait(seconds(20));
  EXPECT_EQ(of_bad.exit_code, 5) << of_bad.err;
  EXPECT_THAT(of_bad.err, HasSubstr("elsewhere/table.csv"));
  EXPECT_EQ(of_good.exit_code, 4) << of_good.err;
  EXPECT_THAT(of_good.err, HasSubstr("rank 1 of 2 ended with: "));
  EXPECT_THAT(of_good.err, HasSubstr("elsewhere/table.csv"));
}

}  // namespace
}  // namespace runtime::faults
