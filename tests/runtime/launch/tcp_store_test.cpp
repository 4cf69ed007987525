// The store that rank 0 keeps, with ranks, strangers, and a rank 0 that is not there.
#include "runtime/launch/tcp_store.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "runtime/launch/rendezvous.h"
#include "tests/runtime/launch/store_support.h"

namespace runtime::launch::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;
using Options = TcpStore::Options;

// Rank 0's store on a free port of the loopback interface.
struct Served {
  explicit Served(const std::string& secret = "", const std::string& host = "127.0.0.1")
      : leader(Options{host + ":0", true, secret}), address(leader.description()) {
    address = "tcp://" + address.substr(address.find(" at ") + 4);
  }
  Options follower(const std::string& secret = "") const { return {address, false, secret, 60s}; }
  int port() const { return std::atoi(address.substr(address.rfind(':') + 1).c_str()); }

  TcpStore leader;
  std::string address;
};

// A connection that has not sent anything.
class Stranger {
 public:
  explicit Stranger(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  void send(const std::string& bytes) const {
    static_cast<void>(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  // What the server sends until it ends the connection.
  std::string receive() const {
    std::string all(1 << 16, '\0');
    const ssize_t size = ::recv(socket_.get(), all.data(), all.size(), MSG_WAITALL);
    all.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return all;
  }

 private:
  plugins::host::Descriptor socket_;
};

TEST(TcpStore, KeepsWhatAnyOfThemHasSet) {
  Served served;
  TcpStore one(served.follower()), other(served.follower());
  EXPECT_EQ(other.try_get("run/a"), std::nullopt);
  one.set("run/a", "1");
  EXPECT_EQ(other.get("run/a", 0s), "1");
  EXPECT_EQ(served.leader.try_get("run/a"), "1");
  const std::string binary("\0\xff\r\n%s", 6), large(kLargestValue, 'x');
  served.leader.set("run/a b", binary);
  EXPECT_EQ(one.try_get("run/a b"), binary);
  one.set("empty", "");
  EXPECT_EQ(other.try_get("empty"), "");
  one.set("large", large);
  EXPECT_EQ(other.try_get("large"), large);
  one.set("large", "small");
  EXPECT_EQ(other.try_get("large"), "small");
  EXPECT_THAT(message_of<StoreTimeout>([&] { one.get("never", 30ms, 3); }),
              AllOf(HasSubstr("rank 3 does not answer"), HasSubstr("'never'"),
                    HasSubstr(served.address.substr(6))));
}

TEST(TcpStore, WakesThoseThatWait) {
  Served served;
  TcpStore store(served.follower());
  std::vector<std::string> found(3);
  std::vector<std::jthread> waiting;
  for (std::string& value : found) waiting.emplace_back([&] { value = store.get("key", 60s); });
  std::this_thread::sleep_for(50ms);
  // Those that wait hold up nobody, or this would last until they give up.
  EXPECT_EQ(store.try_get("another"), std::nullopt);
  store.set("key", "value");
  waiting.clear();
  EXPECT_THAT(found, Each("value"));
  EXPECT_EQ(store.wait_for("never", 20ms), std::nullopt);
  EXPECT_EQ(store.wait_for("key", 0s), "value");
}

TEST(TcpStore, RingsWithoutBeingAsked) {
  Served served;
  TcpStore store(served.follower());
  expect_bells(store, served.leader);
  const auto bell = store.bell("another");
  EXPECT_FALSE(may_ring(*bell, 300ms));
}

TEST(TcpStore, RanksMeetInIt) {
  Served served;
  const auto prefixes = in_threads(8, [&](int rank) {
    if (rank == 0) return join(served.leader, 0, 8, 60s);
    TcpStore store(served.follower());
    return join(store, rank, 8, 60s);
  });
  EXPECT_THAT(prefixes, Each(AllOf(prefixes[0], StartsWith("run-"))));
}

TEST(TcpStore, TheDeadlineNamesTheMissing) {
  Served served;
  TcpStore store(served.follower());
  const auto said = in_threads(
      2, [&](int i) { return i == 0 ? join(served.leader, 0, 4, 2s) : join(store, 2, 4, 2s); });
  EXPECT_THAT(said, Each(HasSubstr("ranks 1 and 3 of 4 have not come")));
}

// A port that nothing uses, below those that the system gives to others.
std::string free_address() {
  std::random_device random;
  for (;;) {
    std::string address = "127.0.0.1:" + std::to_string(20000 + random() % 10000);
    try {
      const TcpStore store(Options{address, true});
      return address;
    } catch (const CommunicationError&) {  // another process has it
    }
  }
}

TEST(TcpStore, RanksMayComeBeforeRank0) {
  const std::string address = free_address();
  const std::jthread early([&] {
    TcpStore store(Options{address, false, "", 60s});
    store.set("early", "1");
  });
  std::this_thread::sleep_for(150ms);
  TcpStore leader(Options{address, true});
  EXPECT_EQ(leader.get("early", 60s), "1");
}

TEST(TcpStore, OnlyTheSecretOpensIt) {
  Served served("hidden");
  TcpStore right(served.follower("hidden"));
  right.set("key", "value");
  for (const char* wrong : {"", "hiddem", "hidden2", "hidde"}) {
    EXPECT_THAT(message_of([&] { TcpStore store(served.follower(wrong)); }),
                AllOf(HasSubstr("refused the secret"), HasSubstr("RUNTIME_SECRET")));
  }
  EXPECT_THAT(message_of<ConfigurationError>(
                  [&] { TcpStore store(served.follower(std::string(2000, 'x'))); }),
              HasSubstr("expected at most 1024"));
  // A request without a hello is not heard.
  Stranger stranger(served.port());
  stranger.send(std::string("g\0\0\0\0\3\0\0\0\0\0\0\0key", 16));
  EXPECT_EQ(stranger.receive(), "");
  EXPECT_EQ(right.try_get("key"), "value");
}

TEST(TcpStore, StrangersDisturbNobody) {
  Served served;
  TcpStore store(served.follower());
  store.set("key", "value");
  std::vector<Stranger> silent;
  for (int i = 0; i < 300; ++i) silent.emplace_back(served.port());
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {
    const Stranger stranger(served.port());
    // Every second one begins as a rank does, every fourth with the whole hello.
    std::string bytes = i % 2 == 0 ? "" : std::string("RTSTORE\1", 8);
    if (i % 4 == 3) bytes += std::string(4, '\0');
    for (std::size_t n = random() % 200; n > 0; --n) bytes += static_cast<char>(random());
    stranger.send(bytes);
  }
  EXPECT_EQ(store.try_get("key"), "value");
  TcpStore late(served.follower());
  EXPECT_EQ(late.try_get("key"), "value");
}

std::string hello() { return std::string("RTSTORE\1\0\0\0\0", 12); }
std::string request_for(const std::string& key) {
  return std::string("g\0\0\0\0", 5) + static_cast<char>(key.size()) +
         std::string("\0\0\0\0\0\0\0", 7) + key;
}

// A rank that dies in the midst of a request leaves nothing behind that the server would wait for.
TEST(TcpStore, HalfARequestIsForgotten) {
  auto served = std::make_unique<Served>();
  {
    const Stranger rank(served->port());
    rank.send(hello() + request_for("a long key").substr(0, 15));
    EXPECT_EQ(served->leader.try_get("key"), std::nullopt);
  }
  EXPECT_EQ(served->leader.try_get("key"), std::nullopt);
  const auto begin = Clock::now();
  served.reset();
  EXPECT_LT(Clock::now() - begin, StoreServer::kLinger);
}

// Its answers stay within bounds, and the others are answered all the same.
TEST(TcpStore, OneThatAsksAndDoesNotReadDisturbsNobody) {
  Served served;
  served.leader.set("large", std::string(kLargestValue, 'x'));
  const Stranger greedy(served.port());
  std::string all = hello();
  for (int i = 0; i < 2000; ++i) all += request_for("large");  // 2 GiB of answers
  greedy.send(all);
  TcpStore store(served.follower());
  EXPECT_EQ(store.try_get("large")->size(), kLargestValue);
}

TEST(TcpStore, APortThatIsTakenIsNamed) {
  Served served;
  EXPECT_THAT(message_of([&] {
                TcpStore second(Options{served.address, true});
              }),
              AllOf(HasSubstr("cannot listen on port " + std::to_string(served.port())),
                    HasSubstr("Address already in use"), HasSubstr("MASTER_PORT")));
}

TEST(TcpStore, ARank0ThatIsNotThereIsNamed) {
  const std::string address = free_address();
  EXPECT_THAT(message_of([&] {
                TcpStore store(Options{address, false, "", 200ms});
              }),
              AllOf(StartsWith("the store of rank 0 at " + address), HasSubstr("cannot connect"),
                    HasSubstr("Connection refused"), HasSubstr("firewall")));
  EXPECT_THAT(message_of([&] {
                TcpStore store(Options{"tcp://no.such.host.invalid:29500", false, "", 200ms});
              }),
              HasSubstr("no.such.host.invalid"));
}

TEST(TcpStore, ARank0ThatHasEndedIsNamed) {
  auto served = std::make_unique<Served>();
  const std::string address = served->address;
  TcpStore store(served->follower());
  store.set("key", "value");
  {
    const std::jthread ends([&] { served.reset(); });
    // It stays for those that still ask.
    EXPECT_EQ(store.try_get("key"), "value");
  }
  EXPECT_THAT(message_of([&] { store.try_get("key"); }),
              AllOf(HasSubstr(address.substr(6)), HasSubstr("cannot connect"),
                    HasSubstr("rank 0, or the agent that keeps it for rank 0, has ended")));
}

TEST(TcpStore, ListensOnIPv6) {
  const plugins::host::Descriptor socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 own{};
  own.sin6_family = AF_INET6;
  own.sin6_addr = in6addr_loopback;
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&own), sizeof own) != 0)
    GTEST_SKIP() << "there is no IPv6 here";
  Served served("", "[::1]");
  TcpStore store(served.follower());
  store.set("key", "value");
  EXPECT_EQ(served.leader.try_get("key"), "value");
}

TEST(TcpStore, AddressesThatAreNone) {
  for (const char* address : {"", "host", ":6379", "host:", "host:0", "host:65536", "host:12x",
                              "tcp://", "tcp://host", "host:-1", "/folder"}) {
    EXPECT_THAT(message_of<ConfigurationError>([&] { TcpStore store(Options{address}); }),
                HasSubstr("expected tcp://host:port"))
        << address;
  }
}

}  // namespace
}  // namespace runtime::launch::test
