// `runtime train` with parallelism.update = "asynchronous", ranks as threads and as processes.
#include "tests/end_to_end/faults/job.h"

#include <signal.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace runtime::faults {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

const std::string kAsynchronous = "parallelism.update=asynchronous";

class AsynchronousJob : public JobTest {
 protected:
  std::vector<std::string> backends() const {
    std::vector<std::string> list = {"local"};
    if (has_plugin("gloo")) list.push_back("gloo");
    return list;
  }
  ProcessResult result(const std::string& backend, int count, Words settings) {
    settings.push_back(kAsynchronous);
    return ranks(backend, count, settings)->wait(seconds(60));
  }
  // The final weights of a run of 2 ranks.
  std::string weights(const std::string& backend, Words settings) {
    std::filesystem::remove_all(path("run"));
    const ProcessResult r = ranks(backend, 2, std::move(settings))->wait(seconds(60));
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return run_file("weights.safetensors");
  }
};

nlohmann::json last_line(const std::string& out) {
  std::istringstream lines(out);
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('{')) last = nlohmann::json::parse(line);
  }
  return last;
}

TEST_F(AsynchronousJob, Learns) {
  for (const std::string& backend : backends()) {
    for (const int count : {2, 3}) {
      const ProcessResult r = result(backend, count,
                                     {"parallelism.max_staleness=3", "training.epochs=6",
                                      "dataset.samples=300", "optimizer.lr=0.1"});
      ASSERT_EQ(r.exit_code, 0) << backend << ": " << r.err;
      const nlohmann::json last = last_line(r.out);
      EXPECT_EQ(last["epoch"], 6) << r.out;
      EXPECT_GE(last["validation_accuracy"], 0.8) << backend << " " << r.out;
    }
  }
}

TEST_F(AsynchronousJob, StalenessZeroIsSynchronousBitForBit) {
  for (const std::string& backend : backends()) {
    const std::string synchronous = weights(backend, {"training.epochs=2"});
    EXPECT_FALSE(synchronous.empty());
    EXPECT_EQ(weights(backend, {"training.epochs=2", kAsynchronous}), synchronous) << backend;
  }
}

TEST_F(AsynchronousJob, AKilledRankEndsTheOthersAndIsNamed) {
  if (!has_plugin("gloo")) GTEST_SKIP() << "no plugin gloo here";
  for (const int victim : {0, 2}) {
    const Process job = ranks("gloo", 3, {kEndless, kAsynchronous, "parallelism.max_staleness=2"});
    ASSERT_TRUE(job->wait_for_text("\"epoch\":2,", seconds(30)));
    signal_rank(victim, SIGKILL);
    const ProcessResult r = job->wait(seconds(20));
    EXPECT_EQ(r.exit_code, 4);
    EXPECT_THAT(r.err, HasSubstr("rank " + std::to_string(victim) + " of 3 is lost"));
  }
}

// The collectives would not show the stopped rank, because asynchronous ranks may run for a long
// time between two of them.
TEST_F(AsynchronousJob, AStoppedRankEndsTheOthersAtTheDeadline) {
  if (!has_plugin("gloo")) GTEST_SKIP() << "no plugin gloo here";
  const Process job = ranks("gloo", 2, {kEndless, kAsynchronous, "parallelism.max_staleness=2"});
  ASSERT_TRUE(job->wait_for_text("\"epoch\":2,", seconds(30)));
  signal_rank(1, SIGSTOP);
  const ProcessResult r = job->wait(seconds(20));
  EXPECT_EQ(r.exit_code, 4);
  EXPECT_THAT(r.err, HasSubstr("rank 1 of 2 is lost: it does not answer"));
}

TEST_F(AsynchronousJob, SigtermSavesAndEndsAllRanks) {
  for (const std::string& backend : backends()) {
    std::filesystem::remove_all(path("run"));
    const Process job = ranks(backend, 2, {kEndless, kAsynchronous, "parallelism.max_staleness=2"});
    ASSERT_TRUE(job->wait_for_text("\"epoch\":2,", seconds(30)));
    job->send(SIGTERM);
    const ProcessResult r = job->wait(seconds(20));
    EXPECT_EQ(r.exit_code, 128 + SIGTERM) << r.err;
    EXPECT_FALSE(run_file("weights.safetensors").empty());
  }
}

TEST_F(AsynchronousJob, ALossThatIsNoNumberIsExit6) {
  for (const std::string& backend : backends()) {
    const ProcessResult r =
        result(backend, 2, {"parallelism.max_staleness=2", "optimizer.lr=1e30", kEndless});
    EXPECT_EQ(r.exit_code, 6) << r.err;
    EXPECT_THAT(r.err, HasSubstr("the loss of step"));
  }
}

TEST_F(AsynchronousJob, RefusesWhatItCannotDo) {
  for (const char* setting : {"parallelism.share=by_speed", "parallelism.zero_stage=1",
                              "training.max_norm=1", "debug.deterministic=true"}) {
    const ProcessResult r = result("local", 2, {"parallelism.max_staleness=2", setting});
    EXPECT_EQ(r.exit_code, 2) << setting;
    EXPECT_THAT(r.err, HasSubstr("asynchronous")) << setting;
  }
}

}  // namespace
}  // namespace runtime::faults
