// Two machines whose link goes down, is slow or delayed, or resets connections.
#include "tests/end_to_end/faults/network.h"

#include <cstdio>
#include <filesystem>

#include "tests/end_to_end/faults/job.h"
#include "tests/end_to_end/faults/proxy.h"

namespace runtime::faults {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr const char *kOne = "10.213.0.1", *kOther = "10.213.0.2";

class Link : public JobTest {
 protected:
  void SetUp() override {
    if (!has_plugin("gloo")) GTEST_SKIP() << "the plugin gloo was not built";
  }
  // Starts both ranks, each on its machine.
  void start(const Network& network, int one, int other, Words settings) {
    settings.push_back("comm.interface=link0");
    network.enter(one);
    first_ = rank(0, 2, settings);
    network.enter(other);
    second_ = rank(1, 2, settings);
  }
  // Both ranks end with exit code 4 before `limit` (in seconds), and rank 0 reports the lost rank.
  void expect_lost(Clock::time_point begin, double limit) {
    const ProcessResult one = first_->wait(seconds(20)), other = second_->wait(seconds(20));
    EXPECT_LT(seconds_since(begin), limit);
    EXPECT_EQ(one.exit_code, 4) << one.err;
    EXPECT_EQ(other.exit_code, 4) << other.err;
    EXPECT_THAT(one.err, HasSubstr(words_)) << one.err;
    std::printf("%.2f s: %s\n", seconds_since(begin),
                one.err.substr(one.err.find("error:")).c_str());
  }

  std::string words_ = "the network between them is down or too slow";
  Process first_, second_;
};

#define NEED(network) \
  if (!(network).why_not().empty()) GTEST_SKIP() << (network).why_not()

TEST_F(Link, DownEndsBothAfterTheDeadline) {
  Network network(2);
  NEED(network);
  network.join(0, kOne, 1, kOther);
  NEED(network);
  start(network, 0, 1, {kEndless});
  ASSERT_TRUE(first_->wait_for_text("\"step\":60,", seconds(20)));
  ASSERT_TRUE(network.run(0, "ip link set link0 down"));
  expect_lost(Clock::now(), 4);
}

TEST_F(Link, ABlackHoleEndsBothAfterTheDeadline) {
  Network network(2);
  NEED(network);
  network.join(0, kOne, 1, kOther);
  NEED(network);
  start(network, 0, 1, {kEndless});
  ASSERT_TRUE(first_->wait_for_text("\"step\":60,", seconds(20)));
  ASSERT_TRUE(network.run(0, std::string("ip route add blackhole ") + kOther));
  expect_lost(Clock::now(), 4);
}

// Each segment of the 32 MB arrives in time, but all of them together take half a minute.
TEST_F(Link, TheDeadlineIsOfAWholeCollective) {
  Network network(2);
  NEED(network);
  network.join(0, kOne, 1, kOther);
  NEED(network);
  for (const int machine : {0, 1}) {
    if (!network.run(machine, "tc qdisc add dev link0 root tbf rate 8mbit burst 32kb latency 50ms"))
      GTEST_SKIP() << "the kernel has no token bucket";
  }
  start(network, 0, 1,
        {"comm.timeout_s=3", "model.input=[2000]",
         "model.layers=[{ type = \"linear\", features = 4000 }, { type = \"linear\", features = 3 "
         "}]"});
  expect_lost(Clock::now(), 6);
}

class Middle : public Link {
 protected:
  // Machines 0 and 3 run the ranks; the proxy uses the two machines between them.
  std::unique_ptr<Network> network() {
    auto network = std::make_unique<Network>(4);
    if (!network->why_not().empty()) return network;
    network->join(0, kOne, 1, kOther);
    network->join(3, kOther, 2, kOne);
    for (const int machine : {0, 3})
      EXPECT_TRUE(network->set_ports(machine, Proxy::kFirstPort, Proxy::kLastPort));
    return network;
  }
};

TEST_F(Middle, DelaysOnlyTakeTime) {
  const auto network = this->network();
  NEED(*network);
  Proxy proxy(*network, {1, kOther}, {2, kOne}, milliseconds(50));
  start(*network, 0, 3, {"training.epochs=2"});
  const ProcessResult one = first_->wait(seconds(30)), other = second_->wait(seconds(30));
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_GT(proxy.connections(), 0);
  const std::string delayed = run_file("metrics.jsonl");
  std::filesystem::remove_all(path("run"));
  ASSERT_EQ(ranks("gloo", 2, {"training.epochs=2"})->wait(seconds(30)).exit_code, 0);
  const auto losses = [](const std::string& text) {
    std::string all;
    for (size_t at = text.find("\"loss\":"); at != text.npos; at = text.find("\"loss\":", at + 1))
      all += text.substr(at, text.find(',', at) - at) + "\n";
    return all;
  };
  EXPECT_EQ(losses(delayed), losses(run_file("metrics.jsonl")));
  EXPECT_NE(losses(delayed), "");
}

TEST_F(Middle, AResetConnectionEndsBothAtOnce) {
  const auto network = this->network();
  NEED(*network);
  Proxy proxy(*network, {1, kOther}, {2, kOne}, milliseconds(0));
  start(*network, 0, 3, {kEndless});
  ASSERT_TRUE(first_->wait_for_text("\"step\":60,", seconds(20)));
  proxy.reset();
  words_ = "rank 1";
  expect_lost(Clock::now(), 2);
}

TEST_F(Middle, ConnectionsThatAreAlwaysResetEndTheRendezvous) {
  const auto network = this->network();
  NEED(*network);
  Proxy proxy(*network, {1, kOther}, {2, kOne}, milliseconds(0));
  proxy.reset();
  start(*network, 0, 3, {kEndless});
  words_ = "rank 1";
  expect_lost(Clock::now(), 5 + 2);
  EXPECT_GT(proxy.connections(), 0);
}

}  // namespace
}  // namespace runtime::faults
