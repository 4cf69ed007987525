// A rendezvous that is disturbed by foreign clients or by leftovers of earlier runs.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <stop_token>
#include <thread>

#include "tests/end_to_end/faults/job.h"

namespace runtime::faults {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

struct Listener {
  std::string address;  // as /proc/net/tcp prints it: "0100007F"
  int port;
};

std::set<std::string> sockets_of(pid_t process) {
  std::set<std::string> sockets;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator("/proc/" + std::to_string(process) + "/fd", error)) {
    const std::string target = fs::read_symlink(entry.path(), error).string();
    if (target.starts_with("socket:[")) sockets.insert(target.substr(8, target.size() - 9));
  }
  return sockets;
}

std::vector<Listener> listeners_of(pid_t process) {
  std::vector<Listener> list;
  const std::set<std::string> sockets = sockets_of(process);
  for (const char* file : {"tcp", "tcp6"}) {
    std::ifstream table("/proc/" + std::to_string(process) + "/net/" + file);
    std::string line, slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    for (std::getline(table, line); std::getline(table, line);) {
      std::istringstream(line) >> slot >> local >> remote >> state >> queues >> timer >>
          retransmits >> user >> timeout >> inode;
      if (state != "0A" || !sockets.contains(inode)) continue;
      const size_t colon = local.find(':');
      list.push_back({local.substr(0, colon), std::stoi(local.substr(colon + 1), nullptr, 16)});
    }
  }
  return list;
}

sockaddr_in loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Connects, sends bytes that no rank would send, and keeps the connection open.
int disturb(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd);
    return -1;
  }
  const std::string garbage(300, '\x5a');
  if (send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL) < 0) std::perror("send");
  return fd;
}

class Strangers : public JobTest {
 protected:
  void SetUp() override {
    if (!has_plugin("gloo")) GTEST_SKIP() << "the plugin gloo was not built";
  }
  // Whether rank 1 has said which host it is on, after which it waits for rank 0 and then connects.
  bool all_have_come() const {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path("meeting"), error))
      if (entry.path().filename().string().ends_with("hosts_2f1")) return true;
    return false;
  }
};

TEST_F(Strangers, GarbageOnARanksPortHoldsNothingUp) {
  const Process second = rank(1, 2);
  const pid_t other = pid_of(1);
  ASSERT_NE(other, 0);
  const auto begin = Clock::now();
  const Process first = rank(0, 2);
  // Rank 0 listens only while the ranks connect. Rank 1 is stopped then, so that the foreign client
  // connects first.
  while (!all_have_come() && seconds_since(begin) < 5)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  kill(other, SIGSTOP);
  std::vector<Listener> found;
  for (const pid_t listening = pid_of(0); found.empty() && seconds_since(begin) < 3;)
    found = listeners_of(listening);
  std::vector<int> connections;
  for (const Listener& listener : found) {
    EXPECT_EQ(listener.address, "0100007F") << "it listens not on the loopback device only";
    connections.push_back(disturb(listener.port));
  }
  std::this_thread::sleep_for(milliseconds(100));
  kill(other, SIGCONT);
  const ProcessResult one = first->wait(seconds(20)), two = second->wait(seconds(20));
  EXPECT_FALSE(connections.empty()) << "the ranks have met before anybody could come between";
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_EQ(two.exit_code, 0) << two.err;
  for (const int fd : connections) close(fd);
}

// As long as it lives, it finds every port of every process of the test and acts as port scanners
// and broken clients do: it connects and resets, stays silent, sends garbage, or sends slowly.
class Scanner {
 public:
  explicit Scanner(std::function<std::vector<pid_t>()> processes)
      : processes_(std::move(processes)),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}
  ~Scanner() {
    thread_.request_stop();
    thread_.join();
    for (const int fd : open_) close(fd);
  }
  int connections() const { return connections_; }

 private:
  // Finding the processes takes longer than ranks listen, so only every fourth round does it.
  void run(const std::stop_token& stop) {
    std::vector<pid_t> known;
    for (int i = 0; !stop.stop_requested(); ++i) {
      if (i % 4 == 0) known = processes_();
      for (const pid_t process : known)
        for (const Listener& listener : listeners_of(process)) visit(listener.port);
    }
  }

  void visit(int port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(port);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      close(fd);
      return;
    }
    const int kind = connections_++ % 4;
    const std::string garbage(kind == 1 ? 300 : 1, '\x5a');
    if (kind != 0 && send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL) < 0) close(fd);
    const linger at_once{1, 0};
    if (kind == 2) setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    if (kind == 2)
      close(fd);
    else
      open_.push_back(fd);
    if (open_.size() < 100) return;
    for (const int old : open_) {
      send(old, "x", 1, MSG_NOSIGNAL);
      close(old);
    }
    open_.clear();
  }

  const std::function<std::vector<pid_t>()> processes_;
  std::vector<int> open_;
  std::atomic<int> connections_ = 0;
  std::jthread thread_;
};

// One rank is delayed between the rendezvous and its first connection, so that the others listen
// for longer. On a busy machine the scan finds few of the ports in time, so there are more rounds.
TEST_F(Strangers, AScanOfAllPortsAllTheTimeKillsNobody) {
  Scanner scanner([this] { return processes(); });
  for (int i = 0; i < 10 || (scanner.connections() <= 40 && i < 100); ++i) {
    fs::remove_all(path("run"));
    fs::remove_all(path("meeting"));
    const Words settings = {"training.epochs=100", "parallelism.sync_batch_norm=true"};
    const Process last = rank(2, 3, settings);
    const pid_t held = pid_of(2);
    ASSERT_NE(held, 0);
    const Process first = rank(0, 3, settings), second = rank(1, 3, settings);
    const auto begin = Clock::now();
    while (!all_have_come() && seconds_since(begin) < 5)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    kill(held, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(500));
    kill(held, SIGCONT);
    for (const Process* process : {&first, &second, &last}) {
      const ProcessResult result = (*process)->wait(seconds(30));
      ASSERT_EQ(result.exit_code, 0) << result.err;
    }
  }
  std::printf("%d connections\n", scanner.connections());
  EXPECT_GT(scanner.connections(), 40);
}

// A server that is not Redis: it sends other bytes, or none.
class NoRedis : public Strangers, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Words, NoRedis, testing::Values("", "HTTP/1.1 400 Bad Request\r\n\r\n"),
                         [](const auto& info) { return *info.param == '\0' ? "None" : "Http"; });

TEST_P(NoRedis, EndsTheRendezvousWithTheAddress) {
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(server, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(server, 8), 0);
  getsockname(server, reinterpret_cast<sockaddr*>(&address), &size);
  std::thread answers([&] {
    const std::string words = GetParam();
    for (int fd; (fd = accept(server, nullptr, nullptr)) >= 0;)
      if (!words.empty()) send(fd, words.data(), words.size(), MSG_NOSIGNAL);
  });
  const std::string where = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  const auto begin = Clock::now();
  const Process only = rank(0, 2, {"comm.rendezvous=redis", "comm.rendezvous_address=" + where});
  const ProcessResult result = only->wait(seconds(20));
  if (result.exit_code == 2 && result.err.find("no Redis") != std::string::npos) {
    std::puts("this build has no Redis");
  } else {
    EXPECT_EQ(result.exit_code, 4) << result.err;
    EXPECT_THAT(result.err, HasSubstr(where));
    EXPECT_LT(seconds_since(begin), 5 + 2);
  }
  shutdown(server, SHUT_RDWR);
  close(server);
  answers.join();
}

TEST_F(Strangers, WhatKilledRunsHaveLeftIsNotTakenForThisRun) {
  for (int i = 0; i < 2; ++i) {
    const Process first = rank(0, 2, {kEndless}), second = rank(1, 2, {kEndless});
    ASSERT_TRUE(first->wait_for_text("\"step\":", seconds(20)));
    first->send(SIGKILL);
    second->send(SIGKILL);
    EXPECT_EQ(first->wait(seconds(5)).exit_code, 128 + SIGKILL);
    EXPECT_EQ(second->wait(seconds(5)).exit_code, 128 + SIGKILL);
  }
  EXPECT_FALSE(fs::is_empty(path("meeting")));
  const Process second = rank(1, 2);  // the first rank to arrive finds only leftovers
  std::this_thread::sleep_for(milliseconds(200));
  const Process first = rank(0, 2);
  EXPECT_EQ(first->wait(seconds(20)).exit_code, 0);
  EXPECT_EQ(second->wait(seconds(20)).exit_code, 0);
}

TEST_F(Strangers, AKilledLauncherTakesItsRanksWithIt) {
  Process job = ranks("gloo", 3, {kEndless});
  ASSERT_TRUE(job->wait_for_text("\"step\":", seconds(20)));
  job->send(SIGKILL);
  EXPECT_EQ(job->wait(seconds(5)).exit_code, 128 + SIGKILL);
  for (int i = 0; i < 200 && !processes().empty(); ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(processes().empty());
  fs::remove_all(path("tmp"));  // the killed launcher could not remove its folder
  fs::create_directory(path("tmp"));
  EXPECT_EQ(ranks("gloo", 3)->wait(seconds(20)).exit_code, 0);
}

TEST_F(Strangers, RanksThatDisagreeOnTheirNumberSayWhoSaysWhat) {
  const Process first = rank(0, 2), second = rank(1, 3);
  for (const auto* process : {&first, &second}) {
    const ProcessResult result = (*process)->wait(seconds(20));
    EXPECT_EQ(result.exit_code, 4) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("says that there are 2 ranks"), HasSubstr("says 3"),
                                  HasSubstr("start all ranks with the same number of ranks")));
  }
}

TEST_F(Strangers, ARankThatDoesNotComeIsNamedAtTheDeadline) {
  const auto begin = Clock::now();
  const Process first = rank(0, 3, {"comm.init_timeout_s=1"});
  const Process second = rank(1, 3, {"comm.init_timeout_s=1"});
  for (const auto* process : {&first, &second}) {
    const ProcessResult result = (*process)->wait(seconds(20));
    EXPECT_EQ(result.exit_code, 4) << result.err;
    EXPECT_THAT(result.err, HasSubstr("rank 2 of 3 has not come within 1 s"));
  }
  EXPECT_LT(seconds_since(begin), 4);
}

}  // namespace
}  // namespace runtime::faults
