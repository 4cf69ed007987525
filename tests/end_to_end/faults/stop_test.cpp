// How a job of several ranks ends: by an error of all ranks or of one, and by signals.
#include <signal.h>
#include <string.h>

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

constexpr const char* kTable = R"(
job.dump_folder = "run"
dataset.format = "csv"
dataset.path = "table.csv"
dataset.target = "y"
dataset.task = "regression"
model.input = [2]
model.layers = [ { type = "linear", features = 1 } ]
training.global_batch_size = 2
device.backend = "reference"
)";

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
  void expect_saved(const ProcessResult& result, int signal = SIGTERM) {
    EXPECT_EQ(result.exit_code, 128 + signal) << result.err;
    const std::string name = sigabbrev_np(signal);
    EXPECT_THAT(result.err, HasSubstr("stopped by SIG" + name + " after step "));
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

TEST_P(Ending, AnyOfTheSignalsLetsTheRanksSave) {
  for (const int signal : {SIGINT, SIGHUP}) {
    std::filesystem::remove_all(path("run"));
    const Process job = training();
    job->send(signal);
    expect_saved(job->wait(seconds(20)), signal);
  }
}

// SIGUSR2 asks for whom the ranks wait; the job goes on.
TEST_P(Ending, AQuestionIsAnsweredByAllRanks) {
  const Process job = training();
  job->send(SIGUSR2);
  for (int rank = 0; rank < 3; ++rank) {
    const auto file = path("run/rank-" + std::to_string(rank) + "-collectives.json");
    const auto limit = Clock::now() + seconds(20);
    while (!std::filesystem::exists(file) && Clock::now() < limit)
      std::this_thread::sleep_for(milliseconds(20));
    EXPECT_TRUE(std::filesystem::exists(file)) << file;
  }
  job->send(SIGTERM);
  const ProcessResult result = job->wait(seconds(20));
  expect_saved(result);
  EXPECT_THAT(result.err, HasSubstr("SIGUSR2: the ranks that get this signal write"));
}

// As under nohup: the terminal is gone, but the training continues.
TEST_P(Ending, AHangUpThatIsIgnoredStaysSo) {
  const Process job = ranks(GetParam(), 3, {kEndless}, [] { ::signal(SIGHUP, SIG_IGN); });
  ASSERT_TRUE(job->wait_for_text("\"step\":", seconds(30)));
  job->send(SIGHUP);
  const bool ours = std::string(GetParam()) == "gloo";  // ranks of mpirun ignore no signals
  for (int rank = 0; rank < 3 && ours; ++rank) signal_rank(rank, SIGHUP);
  std::this_thread::sleep_for(milliseconds(500));
  job->send(SIGTERM);
  expect_saved(job->wait(seconds(20)));
}

TEST_P(Ending, ASignalForOneRankStopsAllAfterTheSameStep) {
  if (!processes_of_their_own()) GTEST_SKIP() << "ranks are threads of one process";
  const Process job = training();
  signal_rank(1, SIGTERM);
  expect_saved(job->wait(seconds(20)));
}

TEST_P(Ending, ASecondSignalDoesNotWait) {
  const Process job = training();
  if (processes_of_their_own()) signal_rank(1, SIGSTOP);  // then the ranks cannot agree on a step
  job->send(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  job->send(SIGTERM);
  EXPECT_EQ(job->wait(seconds(10)).exit_code, 143);
}

// The launcher forwards the signal to the other ranks, which end; the stopped rank cannot.
TEST_P(Ending, ARankThatIsStoppedDoesNotKeepTheLauncher) {
  if (std::string(GetParam()) != "gloo") GTEST_SKIP() << "ranks that our launcher starts only";
  const Process job = training();
  signal_rank(1, SIGSTOP);
  job->send(SIGTERM);  // ranks 0 and 2 wait for rank 1, and have not saved ...
  std::this_thread::sleep_for(milliseconds(500));
  // ... and end by the second signal. Both are found first, because rank 2 ends soon after rank 0.
  const pid_t others[] = {pid_of(0), pid_of(2)};
  for (const pid_t rank : others) {
    if (rank > 0) kill(rank, SIGTERM);
  }
  const ProcessResult result = job->wait(seconds(10));
  EXPECT_EQ(result.exit_code, 143) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank 1 (pid "));
  EXPECT_THAT(result.err, HasSubstr("is stopped, as by SIGSTOP: killed"));
}

// Situations in which a rank does not check for signals for a long time. "" stands for one rank.
class Second : public JobTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (*GetParam() != '\0' && !has_plugin(GetParam()))
      GTEST_SKIP() << "the plugin " << GetParam() << " was not built";
  }
  // Waits a short time until a process of the test has opened the file; returns whether one has.
  bool is_opened(const std::string& name) const {
    const auto begin = Clock::now();
    while (seconds_since(begin) < 20) {
      for (const pid_t process : processes()) {
        std::error_code gone;
        for (const auto& entry :
             std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd", gone))
          if (std::filesystem::read_symlink(entry.path(), gone) == path(name)) return true;
      }
    }
    return false;
  }
  void expect_end_at_second(const Process& job, int signal) {
    job->send(signal);
    std::this_thread::sleep_for(milliseconds(300));
    EXPECT_FALSE(processes().empty()) << "the first signal has ended it";
    const auto begin = Clock::now();
    job->send(signal);
    const ProcessResult result = job->wait(seconds(10));
    EXPECT_EQ(result.exit_code, 128 + signal) << result.err;
    EXPECT_LT(seconds_since(begin), 5);
    EXPECT_FALSE(std::filesystem::exists(path("run/weights.safetensors")));
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, Second, testing::Values("", "local", "gloo", "mpi"),
                         [](const auto& info) {
                           return *info.param == '\0' ? "one" : std::string(info.param);
                         });

// A table of 110 MB takes seconds to read.
TEST_P(Second, EndsRanksThatOpenTheirFiles) {
  job_ = folder_.write("table.toml", kTable);
  std::string rows;
  for (int i = 0; i < 100'000; ++i) rows += "1.25,2.5,3.75\n";
  {
    std::ofstream table(path("table.csv"));  // closed at once, because the ranks would inherit it
    table << "a,b,y\n";
    for (int i = 0; i < 80; ++i) table << rows;
    ASSERT_TRUE(table.flush());
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Process job = ranks(GetParam(), 2);
    ASSERT_TRUE(is_opened("table.csv"));
    expect_end_at_second(job, signal);
  }
}

// A step takes half a minute or longer.
TEST_P(Second, EndsRanksInALongStep) {
  const std::string layers =
      R"(model.layers=[{ type = "linear", features = 3000 }, { type = "linear", features = 3000 },)"
      R"( { type = "linear", features = 3 }])";
  const Process job = ranks(GetParam(), 2,
                            {"model.input=[3000]", "dataset.samples=4000",
                             "training.global_batch_size=2000", "comm.timeout_s=100", layers});
  ASSERT_TRUE(job->wait_for_text("run folder: ", seconds(30)));
  expect_end_at_second(job, SIGTERM);
}

class DataOfOneRank : public JobTest {};

TEST_F(DataOfOneRank, ItsErrorIsTheJobsAndTheOthersSayWhy) {
  if (!has_plugin("gloo")) GTEST_SKIP() << "the plugin gloo was not built";
  job_ = folder_.write("table.toml", kTable);
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
