// torchrun's store, with a server that answers as the agent of PyTorch 2.4 and newer does.
#include "runtime/launch/torch_store.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>

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

// Serves each connection in a thread. Answers only as far as `speaks` says.
class Agent {
 public:
  enum Speaks { kAll, kNothing, kNonsense, kOther };

  explicit Agent(Speaks speaks = kAll)
      : speaks_(speaks), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof own;
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&own), bytes), 0);
    EXPECT_EQ(::listen(socket_.get(), 100), 0);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&own), &bytes), 0);
    port_ = ntohs(own.sin_port);
    listener_ = std::thread([this] { accept_all(); });
  }
  ~Agent() {
    ends_ = true;
    listener_.join();
    for (std::thread& thread : threads_) thread.join();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::vector<std::string> keys() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> list;
    for (const auto& [key, value] : values_) list.push_back(key);
    return list;
  }

 private:
  // Ends the thread of a connection that is lost, or whose client says something wrong.
  struct Over {};

  static bool readable(int socket, int milliseconds) {
    pollfd entry{.fd = socket, .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, milliseconds) > 0;
  }
  void accept_all() {
    while (!ends_) {
      if (!readable(socket_.get(), 5)) continue;
      threads_.emplace_back([this, socket = plugins::host::Descriptor(
                                       ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC))] {
        try {
          serve(socket.get());
        } catch (const Over&) {
        }
      });
    }
  }
  std::string read(int socket, std::size_t count) const {
    std::string bytes(count, '\0');
    for (std::size_t done = 0; done < count;) {
      if (ends_) throw Over();
      if (!readable(socket, 5)) continue;
      const ssize_t got = ::recv(socket, bytes.data() + done, count - done, 0);
      if (got <= 0) throw Over();
      done += static_cast<std::size_t>(got);
    }
    return bytes;
  }
  uint64_t read_number(int socket) const {
    uint64_t number = 0;
    const std::string bytes = read(socket, sizeof number);
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
  }
  std::string read_text(int socket) const { return read(socket, read_number(socket)); }
  std::string read_only_key(int socket) const {
    if (read_number(socket) != 1) throw Over();
    return read_text(socket);
  }
  static void write(int socket, const std::string& bytes) {
    if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) throw Over();
  }
  std::optional<std::string> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

  void serve(int socket) {
    if (speaks_ == kNothing) read(socket, 1 << 20);
    if (speaks_ == kOther) return;  // closes the connection
    if (read(socket, 5) != std::string("\0\xce\xf7\x85\x3c", 5)) return;
    while (true) answer(socket, read(socket, 1)[0]);
  }
  void answer(int socket, char request) {
    if (speaks_ == kNonsense) {
      write(socket, "what");
    } else if (request == 1) {
      const std::string key = read_text(socket), value = read_text(socket);
      const std::lock_guard lock(mutex_);
      values_[key] = value;
    } else if (request == 5) {
      write(socket, std::string(1, find(read_only_key(socket)) ? '\0' : '\1'));
    } else if (request == 3) {
      const std::string value = find(read_text(socket)).value();
      const uint64_t size = value.size();
      write(socket, std::string(reinterpret_cast<const char*>(&size), sizeof size) + value);
    } else if (request == 6) {
      const std::string key = read_only_key(socket);
      bool found = false;
      while (!(found = find(key).has_value()) && !readable(socket, 5) && !ends_) continue;
      if (found) write(socket, std::string(1, '\0'));
    } else if (request == 12) {
      write(socket, "\1");
    } else {
      throw Over();
    }
  }

  const Speaks speaks_;
  plugins::host::Descriptor socket_;
  int port_ = 0;
  std::atomic<bool> ends_{false};
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
  std::vector<std::thread> threads_;
  std::thread listener_;
};

TEST(TorchStore, KeepsWhatAnyOfThemHasSet) {
  Agent agent;
  TorchStore one(agent.address()), other(agent.address());
  EXPECT_EQ(other.try_get("run/a"), std::nullopt);
  one.set("run/a", "1");
  EXPECT_EQ(other.try_get("run/a"), "1");
  const std::string binary("\0\xff\r\n%s", 6), large(kLargestValue, 'x');
  one.set("run/a", binary);
  EXPECT_EQ(other.get("run/a", 60s), binary);
  one.set("empty", "");
  EXPECT_EQ(other.try_get("empty"), "");
  one.set("large", large);
  EXPECT_EQ(other.wait_for("large", 60s), large);
  EXPECT_EQ(one.description(), "torchrun's store at " + agent.address());
  EXPECT_FALSE(one.fresh());
  // What the agent itself keeps there has other keys.
  EXPECT_THAT(agent.keys(), Each(StartsWith("runtime/")));
}

TEST(TorchStore, WakesThoseThatWait) {
  Agent agent;
  TorchStore store(agent.address());
  std::vector<std::string> found(3);
  std::vector<std::jthread> waiting;
  for (std::string& value : found) waiting.emplace_back([&] { value = store.get("key", 60s); });
  std::this_thread::sleep_for(1200ms);  // longer than one turn
  EXPECT_EQ(store.try_get("another"), std::nullopt);
  store.set("key", "value");
  waiting.clear();
  EXPECT_THAT(found, Each("value"));
  EXPECT_EQ(store.wait_for("never", 20ms), std::nullopt);
  EXPECT_EQ(store.wait_for("never", 0ms), std::nullopt);
  EXPECT_EQ(store.wait_for("key", 0s), "value");
  EXPECT_THAT(message_of<StoreTimeout>([&] { store.get("never", 30ms, 3); }),
              AllOf(HasSubstr("rank 3 does not answer"), HasSubstr("torchrun's store")));
}

TEST(TorchStore, RingsWithoutBeingAsked) {
  auto agent = std::make_unique<Agent>();
  TorchStore one(agent->address()), other(agent->address());
  expect_bells(one, other);
  const auto bell = one.bell("another");
  EXPECT_FALSE(may_ring(*bell, 300ms));
  agent.reset();
  EXPECT_TRUE(may_ring(*bell, 20'000ms));
  EXPECT_THAT(message_of([&] { bell->rings(); }),
              HasSubstr("torchrun's agent, which keeps it, has ended"));
}

TEST(TorchStore, RanksMeetInItAlsoWhereARunHasMetBefore) {
  Agent agent;
  std::string before;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto prefixes = in_threads(6, [&](int rank) {
      TorchStore store(agent.address());
      return join(store, rank, 6, 60s);
    });
    EXPECT_THAT(prefixes, Each(AllOf(prefixes[0], StartsWith("run-"))));
    EXPECT_NE(prefixes[0], before);
    before = prefixes[0];
  }
}

TEST(TorchStore, AStoreOfAnotherVersionIsNamed) {
  for (const auto speaks : {Agent::kNothing, Agent::kNonsense, Agent::kOther}) {
    Agent agent(speaks);
    // A connection that was closed is tried again.
    const std::chrono::nanoseconds limit = speaks == Agent::kOther ? 300ms : 60s;
    EXPECT_THAT(message_of([&] { TorchStore(agent.address(), limit, 200ms); }),
                AllOf(StartsWith("torchrun's store at " + agent.address()),
                      HasSubstr("PyTorch 2.4 and newer"), HasSubstr("comm.rendezvous_address")));
  }
}

TEST(TorchStore, AnAgentThatIsNotThereIsNamed) {
  std::string address;
  std::optional<TorchStore> store;
  {
    Agent agent;
    address = agent.address();
    store.emplace(address);
    store->set("key", "value");
  }
  EXPECT_THAT(message_of([&] { store->try_get("key"); }),
              AllOf(HasSubstr(address), HasSubstr("torchrun's agent, which keeps it, has ended")));
  EXPECT_THAT(message_of([&] { TorchStore(address, 100ms); }),
              AllOf(HasSubstr("cannot connect"), HasSubstr("Connection refused"),
                    HasSubstr("MASTER_ADDR"), HasSubstr("firewall")));
}

TEST(TorchStore, AddressesThatAreNone) {
  for (const char* address : {"", "host", "host:", "host:0", "host:65536", "tcp://host"}) {
    EXPECT_THAT(message_of<ConfigurationError>([&] { TorchStore store(address); }),
                AllOf(HasSubstr("MASTER_PORT"), HasSubstr("expected host:port")))
        << address;
  }
}

}  // namespace
}  // namespace runtime::launch::test
