// Ranks that are lost for good: the others go on, and the lost one is taken in when it is back.
#include <signal.h>

#include <cstdio>

#include "tests/end_to_end/faults/job.h"

namespace runtime::faults {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class ElasticJob : public JobTest {
 protected:
  void SetUp() override {
    if (!has_plugin("gloo")) GTEST_SKIP() << "the plugin gloo was not built";
  }

  // A job that saves every 20 steps and keeps all checkpoints.
  Process job(int count, Words settings, int steps = 4000) {
    settings.insert(settings.end(),
                    {"training.steps=" + std::to_string(steps), "optimizer.name=adamw",
                     "checkpoint.interval_steps=20", "checkpoint.keep_latest=0"});
    return ranks("gloo", count, settings);
  }

  // The name of the checkpoint that a run went on from, as its `n`-th note (from 0) says.
  static std::string resumed_from(const std::string& text, int n = 0) {
    const std::string begin = "resumed from run/checkpoints/";
    size_t at = text.find(begin);
    for (; n > 0 && at != text.npos; --n) at = text.find(begin, at + 1);
    if (at == text.npos) return "";
    at += begin.size();
    return text.substr(at, text.find(',', at) - at);
  }

  std::string weights(const std::string& run) const {
    return test::read_text(path(run) / "weights.safetensors");
  }
};

TEST_F(ElasticJob, ThreeOfFourGoOnAndEndWithTheWeightsOfThreeFromThatCheckpoint) {
  const Process four =
      job(4, {"training.global_batch_size=10", "launch.min_ranks=3", "launch.rejoin_minutes=0"});
  ASSERT_TRUE(four->wait_for_text("\"step\":100,", seconds(30)));
  signal_rank(2, SIGKILL);
  const ProcessResult result = four->wait(seconds(60));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank 2 is left out: 3 of 4 ranks go on"));
  EXPECT_THAT(result.err, HasSubstr("3 ranks over gloo, global batch 10"));
  const std::string checkpoint = resumed_from(result.err);
  ASSERT_NE(checkpoint, "") << result.err;

  const Process three = job(3, {"training.global_batch_size=10", "job.dump_folder=three",
                                "checkpoint.resume=run/checkpoints/" + checkpoint});
  ASSERT_EQ(three->wait(seconds(60)).exit_code, 0);
  EXPECT_EQ(weights("run"), weights("three"));
}

TEST_F(ElasticJob, ARankThatIsBackIsTakenInAfterTheNextCheckpoint) {
  const Process two = job(2, {"launch.min_ranks=1", "launch.rejoin_minutes=0.001"}, 100000);
  ASSERT_TRUE(two->wait_for_text("\"step\":100,", seconds(30)));
  signal_rank(1, SIGKILL);
  const ProcessResult result = two->wait(seconds(100));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank 1 is left out: 1 of 2 ranks go on"));
  EXPECT_THAT(result.err, HasSubstr("all 2 ranks go on from that checkpoint"));
  int step = 0;
  ASSERT_EQ(std::sscanf(resumed_from(result.err, 1).c_str(), "step-%d", &step), 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("stopped by SIGUSR1 after step " + std::to_string(step) + ";"));
}

// With two ranks in a replica of the model, three ranks are no whole number of replicas.
TEST_F(ElasticJob, TheRanksThatAreLeftMakeWholeReplicas) {
  const Process four =
      job(4, {"parallelism.tensor=2", "launch.min_ranks=2", "launch.rejoin_minutes=0",
              "model.layers=[{type=\"linear\", "
              "features=6, activation=\"relu\"}, {type=\"linear\", features=3}]"});
  ASSERT_TRUE(four->wait_for_text("\"step\":60,", seconds(30)));
  signal_rank(3, SIGKILL);
  const ProcessResult result = four->wait(seconds(60));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("rank 3 is left out: 2 of 4 ranks go on"));
}

TEST_F(ElasticJob, OnlyProcessesThatThisProgramStartsCanBeLeftOut) {
  const ProcessResult threads = ranks("local", 2, {"launch.min_ranks=1"})->wait(seconds(20));
  EXPECT_EQ(threads.exit_code, 2);
  EXPECT_THAT(threads.err, HasSubstr("launch.min_ranks = 1, but comm.backend = \"local\" runs the "
                                     "ranks as threads, which are lost together"));
  const ProcessResult outer =
      rank(0, 2, {"launch.ranks=2", "launch.min_ranks=1"})->wait(seconds(20));
  EXPECT_EQ(outer.exit_code, 2);
  EXPECT_THAT(outer.err, HasSubstr("but the ranks were started by"));
  if (!has_plugin("mpi")) return;
  const ProcessResult mpi = ranks("mpi", 2, {"launch.min_ranks=1"})->wait(seconds(20));
  EXPECT_EQ(mpi.exit_code, 2);
  EXPECT_THAT(mpi.err, HasSubstr("leaves the ranks to mpiexec"));
}

}  // namespace
}  // namespace runtime::faults
