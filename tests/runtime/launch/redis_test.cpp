// The Redis store with a real redis-server, if it is installed, and with servers that are not
// Redis.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "runtime/launch/poll.h"
#include "runtime/launch/redis_store.h"
#include "runtime/launch/rendezvous.h"
#include "tests/runtime/launch/store_support.h"

namespace runtime::launch::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr auto kLong = 60s;  // reached only by a test that fails

// A TCP socket on 127.0.0.1, which the destructor closes.
class Socket {
 public:
  explicit Socket(int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) : fd_(fd) {}
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

  // Binds to a free port and returns it.
  int bind() {
    sockaddr_in address = at(0);
    socklen_t size = sizeof address;
    if (::bind(fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("bind");
    return ntohs(address.sin_port);
  }
  bool connect(int port) {
    sockaddr_in address = at(port);
    return ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  bool send(const std::string& bytes) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  std::string receive() {
    char bytes[1024];
    const ssize_t size = ::recv(fd_, bytes, sizeof bytes, 0);
    return {bytes, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }

 private:
  static sockaddr_in at(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  int fd_;
};

int free_port() {
  Socket socket;
  return socket.bind();
}

std::string address_of(int port) { return "127.0.0.1:" + std::to_string(port); }

// A redis-server without persistence, on a port of its own.
class Redis : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("redis-server --version >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "redis-server is not installed";
    // Another process may take the free port before the server does.
    for (int attempt = 0; attempt < 5 && !start(free_port()); ++attempt) stop();
    ASSERT_GT(server_, 0) << "redis-server does not start";
  }
  void TearDown() override { stop(); }

  bool start(int port) {
    port_ = port;
    server_ = ::fork();
    if (server_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::execlp("redis-server", "redis-server", "--port", std::to_string(port).c_str(), "--bind",
               "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder_.path().c_str(),
               "--logfile", (folder_.path() / "log").c_str(), nullptr);
      ::_exit(127);
    }
    return poll_until(20s, [&] { return ended() || Socket().connect(port); }) && !ended();
  }
  bool ended() { return ::waitpid(server_, nullptr, WNOHANG) != 0; }
  void stop() {
    if (server_ > 0) ::kill(server_, SIGKILL);
    if (server_ > 0) ::waitpid(server_, nullptr, 0);
    server_ = -1;
  }
  std::string address() const { return address_of(port_); }
  // The answer of the server to one line.
  std::string ask(const std::string& line) const {
    Socket socket;
    EXPECT_TRUE(socket.connect(port_) && socket.send(line + "\r\n"));
    return socket.receive();
  }
  std::vector<std::string> join_all(int world_size, std::chrono::nanoseconds timeout,
                                    const std::vector<int>& ranks) {
    return in_threads(static_cast<int>(ranks.size()), [&](int i) {
      RedisStore store(address());
      return join(store, ranks[static_cast<std::size_t>(i)], world_size, timeout);
    });
  }

  TempFolder folder_;
  int port_ = 0;
  pid_t server_ = -1;
};

TEST_F(Redis, KeepsWhatAnyOfThemHasSet) {
  RedisStore one(address()), other("redis://" + address());
  EXPECT_EQ(other.try_get("run/a"), std::nullopt);
  one.set("run/a", "1");
  EXPECT_EQ(other.get("run/a", 0s), "1");
  const std::string binary("\0\xff\r\n%s", 6), large(kLargestValue, 'x');
  other.set("run/a b", binary);
  EXPECT_EQ(one.try_get("run/a b"), binary);
  one.set("empty", "");
  EXPECT_EQ(other.try_get("empty"), "");
  one.set("large", large);
  EXPECT_EQ(other.try_get("large"), large);
  EXPECT_THAT(message_of<StoreTimeout>([&] { one.get("never", 30ms); }),
              AllOf(HasSubstr("'never'"), HasSubstr(address())));
}

TEST_F(Redis, IsAskedForAKeyAgainAndAgain) {
  RedisStore one(address()), other(address());
  expect_bells(one, other);
}

TEST_F(Redis, WhatIsLeftVanishesAfterAnHour) {
  RedisStore(address()).set("key", "value");
  EXPECT_THAT(ask("TTL runtime:key"), AnyOf(StartsWith(":3600"), StartsWith(":35")));
}

TEST_F(Redis, ConnectsAgainOnce) {
  RedisStore store(address());
  store.set("key", "value");
  ask("CLIENT KILL TYPE normal");
  EXPECT_EQ(store.try_get("key"), "value");
}

TEST_F(Redis, SaysWhatTheServerHasRefused) {
  RedisStore store(address());
  ask("LPUSH runtime:current x");
  EXPECT_THAT(message_of([&] { join(store, 1, 2, kLong); }),
              AllOf(HasSubstr(address()), HasSubstr("refused GET runtime:current: WRONGTYPE")));
  store.set("current", "now a value");
  EXPECT_EQ(store.try_get("current"), "now a value");
  ask("CONFIG SET requirepass secret");
  EXPECT_THAT(message_of([&] { RedisStore wrong(address()); }), HasSubstr("NOAUTH"));
}

// Runs are killed during their rendezvous; the next run succeeds.
TEST_F(Redis, ARunAfterOneThatWasKilled) {
  for (int world_size : {3, 3, 2, 4}) {
    const pid_t killed = ::fork();
    if (killed == 0) {
      join_all(world_size, kLong, {0, 1});
      ::_exit(0);
    }
    RedisStore store(address());
    if (world_size > 2) store.get("current", kLong);
    std::this_thread::sleep_for(std::chrono::milliseconds(world_size * 10));
    ::kill(killed, SIGKILL);
    ::waitpid(killed, nullptr, 0);
    const auto prefixes = join_all(world_size, kLong,
                                   world_size == 3   ? std::vector{2, 1, 0}
                                   : world_size == 2 ? std::vector{1, 0}
                                                     : std::vector{3, 2, 1, 0});
    EXPECT_THAT(prefixes, Each(AllOf(prefixes[0], StartsWith("run-"))));
  }
}

TEST_F(Redis, TheDeadlineNamesTheMissing) {
  EXPECT_THAT(join_all(4, 200ms, {0, 2}), Each(HasSubstr("ranks 1 and 3 of 4 have not come")));
}

TEST_F(Redis, AServerThatIsGoneIsNamed) {
  RedisStore store(address());
  std::thread killer([&] {
    std::this_thread::sleep_for(50ms);
    stop();
  });
  EXPECT_THAT(
      message_of([&] { join(store, 1, 2, kLong); }),
      AllOf(HasSubstr("redis at " + address() + ": "), HasSubstr("comm.rendezvous_address")));
  killer.join();
}

TEST(NoRedis, NothingListens) {
  Socket reserved;
  const int port = reserved.bind();
  EXPECT_THAT(message_of([&] { RedisStore store(address_of(port)); }),
              AllOf(HasSubstr("cannot connect: Connection refused"), HasSubstr("redis-server")));
}

TEST(NoRedis, AddressesThatAreNone) {
  for (const char* address : {"", "host", ":6379", "host:", "host:0", "host:65536", "host:12x",
                              "redis://", "redis://host", "host:-1", "/folder"}) {
    EXPECT_THAT(message_of<ConfigurationError>([&] { RedisStore store(address); }),
                HasSubstr("expected host:port"))
        << address;
  }
}

// Sends `bytes` to the next client, `times` times with pauses, then only reads.
void pretend(Socket& listener, const std::string& bytes, int times) {
  Socket peer(::accept(listener.fd(), nullptr, nullptr));
  for (int i = 0; i < times && peer.send(bytes); ++i) std::this_thread::sleep_for(10ms);
  while (!peer.receive().empty()) continue;
}

// The error message of a store that connects to such a server.
std::string meet(const std::string& bytes, int times = 1) {
  Socket listener;
  const int port = listener.bind();
  if (::listen(listener.fd(), 1) != 0) return "listen";
  std::thread server([&] { pretend(listener, bytes, times); });
  const auto begin = std::chrono::steady_clock::now();
  std::string message = message_of([&] { RedisStore store(address_of(port), 300ms); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  server.join();
  EXPECT_THAT(message, StartsWith("redis at " + address_of(port)));
  return message;
}

TEST(NoRedis, OtherServers) {
  EXPECT_THAT(meet(""), HasSubstr("Connection timed out (limit 0.3 s)"));
  EXPECT_THAT(meet("SSH-2.0-OpenSSH_9.2\r\n"), HasSubstr("begins with byte 83"));
  EXPECT_THAT(meet("HTTP/1.1 400 Bad Request\r\n\r\n"), HasSubstr("is a Redis server"));
  EXPECT_THAT(meet("-DENIED go away\r\n"), HasSubstr("refused PING: DENIED go away"));
}

TEST(NoRedis, AnswersWithoutSenseOrEnd) {
  // The answer is not complete within the limit, although bytes arrive all the time.
  EXPECT_THAT(meet("+", 1000), HasSubstr("timed out"));
  EXPECT_THAT(meet("$99999999999\r\nx", 1000), Not(HasSubstr("nothing was thrown")));
  EXPECT_THAT(meet("*2000000000\r\n"), HasSubstr("begins with byte 42"));
  EXPECT_THAT(meet("$x\r\n"), Not(HasSubstr("nothing was thrown")));
  EXPECT_THAT(meet("$-7\r\n"), Not(HasSubstr("nothing was thrown")));
  EXPECT_THAT(meet("+" + std::string(10 * kLargestValue, 'x')), HasSubstr("no end"));
}

TEST(NoRedis, RandomBytes) {
  std::mt19937 random(5);
  for (int i = 0; i < 20; ++i) {
    // Half of the answers begin as a valid one could.
    std::string bytes(1 + random() % 300, i % 2 == 0 ? '$' : 'x');
    for (std::size_t at = i % 2 == 0 ? 1 : 0; at < bytes.size(); ++at)
      bytes[at] = static_cast<char>(random());
    meet(bytes);
  }
}

}  // namespace
}  // namespace runtime::launch::test
