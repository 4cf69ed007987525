// Checks which rank the others blame when one stops: each rank in turn is stopped, or cut off from
// the network, at several moments.
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/end_to_end/faults/job.h"
#include "tests/end_to_end/faults/network.h"

namespace runtime::faults {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

constexpr int kRanks = 3;

std::string of(int rank) { return "rank " + std::to_string(rank) + " of 3 "; }

class Blame : public JobTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (!has_plugin(GetParam())) GTEST_SKIP() << "the plugin " << GetParam() << " was not built";
  }

  Process start(Words settings) {
    std::filesystem::remove_all(path("run"));
    settings.insert(settings.end(), {kEndless, "comm.init_timeout_s=2"});
    return ranks(GetParam(), kRanks, settings);
  }

  void expect_blamed(const Process& job, int victim) {
    signal_rank(victim, SIGSTOP);
    const ProcessResult result = job->wait(seconds(15));
    EXPECT_EQ(result.exit_code, 4) << result.err;
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto is_blamed = HasSubstr(of(rank) + "is lost");
      if (rank != victim) {
        EXPECT_THAT(result.err, Not(is_blamed));
      }
    }
    const std::string by_launcher = "rank " + std::to_string(victim) + " (pid ";
    EXPECT_THAT(result.err,
                testing::AnyOf(HasSubstr(of(victim) + "is lost"),
                               testing::AllOf(HasSubstr(by_launcher),
                                              HasSubstr("is stopped, as by SIGSTOP: killed"))));
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, Blame, testing::Values("gloo", "mpi"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Blame, InAStep) {
  for (int victim = 0; victim < kRanks; ++victim) {
    SCOPED_TRACE(victim);
    const Process job = start({});
    ASSERT_TRUE(job->wait_for_text("\"step\":60,", seconds(30)));
    expect_blamed(job, victim);
  }
}

// Half of the time the rank is stopped, so its steps take twice as long.
TEST_P(Blame, ARankThatIsOnlySlow) {
  const Process job = start({R"(model.layers=[{type="linear",features=700},)"
                             R"({type="linear",features=700},{type="linear",features=3}])",
                             "dataset.samples=600", "training.global_batch_size=48"});
  ASSERT_TRUE(job->wait_for_text("\"step\":", seconds(30)));
  std::atomic<bool> seen = false;
  std::thread slows_down([&] {
    while (!seen) {
      signal_rank(1, SIGSTOP);
      std::this_thread::sleep_for(milliseconds(15));
      signal_rank(1, SIGCONT);
      std::this_thread::sleep_for(milliseconds(15));
    }
  });
  const bool warned = job->wait_for_text("warning: rank 1 needs ", seconds(40));
  seen = true;
  slows_down.join();
  job->send(SIGTERM);
  const ProcessResult result = job->wait(seconds(20));
  EXPECT_TRUE(warned) << result.err;
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.err;
}

TEST_P(Blame, InAnEvaluation) {
  for (int victim = 0; victim < kRanks; ++victim) {
    SCOPED_TRACE(victim);
    const Process job = start({"validation.every_steps=1", "dataset.validation_split=0.9"});
    ASSERT_TRUE(job->wait_for_text("validation_loss", seconds(30)));
    expect_blamed(job, victim);
  }
}

TEST_P(Blame, WhileTheyJoin) {
  if (std::string(GetParam()) == "mpi") GTEST_SKIP() << "MPI_Init has no deadline of ours";
  for (int i = 0; i < 10; ++i) {
    const int victim = i % kRanks;
    SCOPED_TRACE("rank " + std::to_string(victim) + " after " + std::to_string(15 * i) + " ms");
    const Process job = start({});
    pid_of(kRanks - 1);
    std::this_thread::sleep_for(milliseconds(15 * i));
    expect_blamed(job, victim);
  }
}

// Each rank runs on a machine of its own; a router connects the machines.
class CutOff : public JobTest {
 protected:
  static constexpr int kRouter = kRanks;

  static std::string network_of(int machine) { return "10.213." + std::to_string(machine) + "."; }

  static bool connect(Network& network) {
    bool works = network.run(kRouter, "echo 1 > /proc/sys/net/ipv4/ip_forward");
    for (int machine = 0; machine < kRanks; ++machine) {
      const std::string port = "port" + std::to_string(machine), net = network_of(machine);
      works = works && network.link(machine, "link0", net + "1", kRouter, port, net + "254") &&
              network.run(machine, "ip route add default via " + net + "254");
    }
    return works;
  }
};

TEST_F(CutOff, ARankIsNamedByAllAndItself) {
  if (!has_plugin("gloo")) GTEST_SKIP() << "the plugin gloo was not built";
  Network network(kRanks + 1);
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  if (!connect(network)) GTEST_SKIP() << "network namespaces cannot be joined by a router";
  for (int victim = 0; victim < kRanks; ++victim) {
    SCOPED_TRACE(victim);
    std::filesystem::remove_all(path("run"));
    std::vector<Process> all;
    for (int machine = 0; machine < kRanks; ++machine) {
      network.enter(machine);
      all.push_back(rank(machine, kRanks, {kEndless, "comm.interface=link0"}));
    }
    ASSERT_TRUE(all[0]->wait_for_text("\"step\":60,", seconds(20)));
    ASSERT_TRUE(network.run(victim, "ip link set link0 down"));
    for (const Process& process : all) {
      const ProcessResult result = process->wait(seconds(10));
      EXPECT_EQ(result.exit_code, 4) << result.err;
      EXPECT_THAT(result.err, HasSubstr(of(victim) + "is cut off"));
    }
    ASSERT_TRUE(network.run(
        victim, "ip link set link0 up && ip route add default via " + network_of(victim) + "254"));
  }
}

}  // namespace
}  // namespace runtime::faults
