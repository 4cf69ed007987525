// Ranks that are killed or stopped.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sstream>
#include <thread>

#include "tests/end_to_end/faults/job.h"

namespace runtime::faults {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// Seconds until the job has ended. On a machine with free cores it takes a tenth of this. A rank
// that does not notice the loss within 2 s is ended by the launcher and names no rank.
constexpr double kNoticed = 5;

std::string lost(int rank, int ranks) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " is lost";
}

std::string said_by(int rank, int lost_one, int ranks) {
  return "[rank " + std::to_string(rank) + "] error: " + lost(lost_one, ranks);
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The step of a line of metrics.jsonl.
int step_of(const std::string& line) {
  int step = -1;
  std::sscanf(line.c_str(), "{\"step\":%d,", &step);
  return step;
}

// RUNTIME_FAULT_KILLS and RUNTIME_FAULT_SEED ask for more kills, or for other ones.
int from_environment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

class Kills : public JobTest {
 protected:
  struct Kill {
    std::string backend;
    int ranks, victim;
    double after_s;
  };

  // The duration of an undisturbed job with so many ranks, in seconds.
  double undisturbed(const std::string& backend, int count) {
    double& known = undisturbed_[backend + std::to_string(count)];
    if (known == 0) {
      const auto begin = Clock::now();
      EXPECT_EQ(ranks(backend, count, short_run())->wait(seconds(60)).exit_code, 0);
      known = seconds_since(begin);
    }
    return known;
  }

  Words short_run() { return {"training.epochs=15", "comm.timeout_s=10"}; }

  Kill draw(std::mt19937& random) {
    Kill k;
    k.backend = has_plugin("mpi") && random() % 5 == 0 ? "mpi" : "gloo";
    k.ranks = static_cast<int>(2 + random() % 3);
    k.victim = static_cast<int>(random() % static_cast<unsigned>(k.ranks));
    k.after_s = undisturbed(k.backend, k.ranks) * static_cast<double>(random() % 1000) / 1000;
    return k;
  }

  // Returns false if the kill came too early or too late to hit a process.
  bool run(const Kill& k) {
    std::filesystem::remove_all(path("run"));
    const Process job = ranks(k.backend, k.ranks, short_run());
    std::this_thread::sleep_for(std::chrono::duration<double>(k.after_s));
    const pid_t victim = pid_of(k.victim, std::chrono::milliseconds(100));
    const bool hit = victim != 0 && kill(victim, SIGKILL) == 0;
    const auto begin = Clock::now();
    const ProcessResult result = job->wait(seconds(20));
    const double took = seconds_since(begin);
    if (hit) worst_[k.backend] = std::max(worst_[k.backend], took);
    if (!hit || result.exit_code == 0) {
      EXPECT_EQ(result.exit_code, 0) << result.err;
      return false;
    }
    EXPECT_EQ(result.exit_code, 4) << result.err;
    if (k.backend == "gloo") check_gloo(k, result, took);
    EXPECT_TRUE(processes().empty());
    return true;
  }

  void check_gloo(const Kill& k, const ProcessResult& result, double took) {
    EXPECT_LT(took, kNoticed) << result.err;
    EXPECT_THAT(result.err, HasSubstr("error: rank " + std::to_string(k.victim) + " (pid "));
    EXPECT_THAT(result.err, HasSubstr("was killed by signal 9 (SIGKILL)"));
    EXPECT_EQ(count_of(result.err, " did not end after SIGTERM"), 0) << result.err;
    // Survivors print nothing only if they had already finished.
    if (std::filesystem::exists(path("run/weights.safetensors"))) return;
    const int said = count_of(result.err, "] error: " + lost(k.victim, k.ranks));
    EXPECT_GE(said, 1) << result.err;
    // Ranks that still wait for others to join each say what the launcher has said.
    if (count_of(result.err, "; look at its output, then start the job again") == 0) {
      EXPECT_EQ(said, 1) << result.err;
    }
  }

  std::map<std::string, double> undisturbed_, worst_;
};

TEST_F(Kills, AtAnyTimeTheOthersEndAndNameTheLostRank) {
  if (!has_plugin("gloo")) GTEST_SKIP() << "the plugin gloo was not built";
  const int kills = from_environment("RUNTIME_FAULT_KILLS", 15);
  const int seed = from_environment("RUNTIME_FAULT_SEED", 1);
  std::mt19937 random(static_cast<unsigned>(seed));
  int hits = 0;
  for (int i = 0; i < kills && !HasFailure(); ++i) {
    const Kill k = draw(random);
    SCOPED_TRACE("kill " + std::to_string(i) + " of seed " + std::to_string(seed) + ": rank " +
                 std::to_string(k.victim) + " of " + std::to_string(k.ranks) + " over " +
                 k.backend + " after " + std::to_string(k.after_s) + " s");
    hits += run(k) ? 1 : 0;
  }
  EXPECT_GT(hits, kills / 2);
  std::printf("%d kills, %d hit a rank at work; until all had ended: gloo %.2f s, mpi %.2f s\n",
              kills, hits, worst_["gloo"], worst_["mpi"]);
}

class LostRank : public JobTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (!has_plugin(GetParam())) GTEST_SKIP() << "the plugin " << GetParam() << " was not built";
  }
  // Starts a training and waits until it has written a line of metrics.
  Process training(int count, Words settings = {}) {
    settings.push_back(kEndless);
    Process job = ranks(GetParam(), count, settings);
    EXPECT_TRUE(job->wait_for_text("\"step\":60,", seconds(30)));
    return job;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, LostRank, testing::Values("gloo", "mpi"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(LostRank, AStoppedRankIsNamedAfterTheDeadlineAndAllCollectivesAreKept) {
  const Process job = training(3);
  signal_rank(1, SIGSTOP);
  const auto begin = Clock::now();
  EXPECT_TRUE(job->wait_for_text(lost(1, 3), seconds(5)));
  EXPECT_GE(seconds_since(begin), 1.5);
  const ProcessResult result = job->wait(seconds(5));
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_THAT(result.err, HasSubstr("did not complete within 2 s"));
  if (std::string(GetParam()) == "gloo") {
    EXPECT_THAT(result.err, HasSubstr("is stopped, as by SIGSTOP: killed"));
  }
  for (int rank = 0; rank < 3; ++rank) {
    const std::string text = run_file("rank-" + std::to_string(rank) + "-collectives.txt");
    EXPECT_THAT(text, HasSubstr("rank " + std::to_string(rank) + ": "));
    EXPECT_GE(count_of(text, "\n  #"), 64) << text;
  }
}

TEST_P(LostRank, AllStartAgainAsOftenAsAllowed) {
  const Process job = ranks(GetParam(), 2, {"training.epochs=1200", "launch.max_restarts=1"});
  ASSERT_TRUE(job->wait_for_text("\"step\":", seconds(30)));
  signal_rank(1, SIGKILL);
  const ProcessResult result = job->wait(seconds(60));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(count_of(result.err, "restart 1 of 1"), 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("done: 7200 steps"));
  // A restarted job begins with step 0 again. metrics.jsonl must have only the lines of the second
  // attempt, so the steps in it never decrease.
  int before = 0;
  std::istringstream lines(run_file("metrics.jsonl"));
  for (std::string line; std::getline(lines, line); before = step_of(line))
    ASSERT_GE(step_of(line), before) << line;
}

class InRendezvous : public JobTest {
 protected:
  // Stops and then kills rank 0 soon after it has started. Returns whether it was stopped before
  // all ranks had joined: rank 0 makes the folder of the run once they have, so there is none then.
  bool kill_first_rank(ProcessResult& result) {
    const Process job = ranks("gloo", 3, {kEndless, "comm.init_timeout_s=60"});
    signal_rank(0, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    signal_rank(0, SIGKILL);
    const auto begin = Clock::now();
    result = job->wait(seconds(20));
    EXPECT_LT(seconds_since(begin), kNoticed);
    return !std::filesystem::remove_all(path("run"));
  }
};

TEST_F(InRendezvous, TheOthersFailWithTheSameWords) {
  if (!has_plugin("gloo")) GTEST_SKIP() << "the plugin gloo was not built";
  ProcessResult result;
  for (int i = 0; i < 5 && !kill_first_rank(result); ++i) {
  }
  EXPECT_EQ(result.exit_code, 4);
  for (const int rank : {1, 2})
    EXPECT_THAT(result.err, HasSubstr(said_by(rank, 0, 3) + ": it was killed by signal 9"));
}

}  // namespace
}  // namespace runtime::faults
