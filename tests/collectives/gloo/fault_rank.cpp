// fault_rank <plugin> <scenario>: one rank of a job in which a fault happens. Exits with 0 if the
// rank saw what the scenario expects.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/mesh/listener.h"
#include "tests/collectives/support/rank.h"

namespace collectives::testing {
namespace {

using namespace std::chrono_literals;
using plugins::host::Communicator;
using plugins::host::Error;
using plugins::host::HostServices;
using plugins::host::make_collective;
using plugins::host::Plugin;
using plugins::host::Work;
using Clock = std::chrono::steady_clock;
using Joined = std::shared_ptr<Communicator>;

constexpr auto kLong = 60s;  // reached only by a test that fails

struct Scene {
  RankPlace place;
  std::string plugin;
  HostServices store;
  std::map<std::string, std::string> options;

  Joined join(std::chrono::nanoseconds timeout = kLong) const {
    return testing::join(place, plugin, options, timeout);
  }
  int last() const { return place.size - 1; }  // the rank that the fault hits
  bool is_last() const { return place.rank == last(); }
};

void expect(bool condition, const std::string& text) {
  if (!condition) throw std::runtime_error("expected: " + text);
}

void expect_in(const std::string& message, const std::string& part) {
  expect(message.find(part) != std::string::npos, "'" + part + "' in: " + message);
}

void expect_within(Clock::time_point since, std::chrono::milliseconds limit) {
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since);
  expect(took < limit, std::to_string(limit.count()) + " ms, took " + std::to_string(took.count()));
}

template <typename Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return error;
  }
  throw std::runtime_error("expected an error, but there was none");
}

Work all_reduce(const Joined& joined, std::vector<float>& data) {
  return joined->enqueue(
      make_collective(RT_ALL_REDUCE, RT_FLOAT32, data.data(), data.data(), data.size(), RT_SUM));
}

// Waits until all ranks except the last have called this function.
void meet_survivors(const Scene& scene) {
  scene.store.kv_set("met/" + std::to_string(scene.place.rank), "");
  for (int rank = 0; rank < scene.last(); ++rank) {
    scene.store.kv_get("met/" + std::to_string(rank), kLong);
  }
}

// Publishes the time of death and kills this process. The monotonic clock is the same in all
// processes.
void die(const Scene& scene) {
  scene.store.kv_set("death", std::to_string(Clock::now().time_since_epoch().count()));
  ::raise(SIGKILL);
}

void expect_death_seen(const Scene& scene, const Error& error) {
  expect(error.code() == RT_ERROR_COMMUNICATION, "RT_ERROR_COMMUNICATION");
  const Clock::duration death(std::stoll(scene.store.kv_get("death", kLong)));
  expect_within(Clock::time_point(death), 1000ms);
  expect_in(error.what(), "lost rank " + std::to_string(scene.last()) + ";");
}

// The last rank is killed during a series of reductions.
void killed_reducing(const Scene& scene) {
  const Joined joined = scene.join();
  std::vector<float> data(1 << 20, 1.0f);
  std::thread killer;
  if (scene.is_last()) {
    killer = std::thread([&] {
      std::mt19937 random(std::random_device{}());
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 200));
      die(scene);
    });
  }
  expect_death_seen(scene, error_of([&] {
                      for (;;) all_reduce(joined, data).wait(kLong);
                    }));
  expect(joined->asynchronous_error().has_value(), "an asynchronous error");
  const auto before = Clock::now();
  error_of([&] { all_reduce(joined, data); });
  expect_within(before, 100ms);
}

// No rank waits for the last rank when it is killed.
void killed_idle(const Scene& scene) {
  const Joined joined = scene.join();
  if (scene.is_last()) die(scene);
  while (!joined->asynchronous_error()) std::this_thread::sleep_for(5ms);
  expect_death_seen(scene, *joined->asynchronous_error());
}

// In a communicator made by split, the message names the rank by its number in the job.
void killed_in_split(const Scene& scene) {
  const Joined joined = scene.join();
  const Joined part = joined->split(scene.place.rank == 0 ? 0 : 1, -scene.place.rank, kLong);
  if (scene.is_last()) die(scene);
  if (scene.place.rank == 0) return;
  std::vector<float> data(10);
  expect_death_seen(scene, error_of([&] { all_reduce(part, data).wait(kLong); }));
}

// The last rank stops before the split; the others give up at their deadline.
void absent_from_split(const Scene& scene) {
  const Joined joined = scene.join();
  if (scene.is_last()) ::raise(SIGSTOP);
  const auto before = Clock::now();
  const Error error = error_of([&] { joined->split(0, scene.place.rank, 500ms); });
  expect(error.code() == RT_ERROR_TIMEOUT || error.code() == RT_ERROR_COMMUNICATION,
         "a split that has failed");
  expect_within(before, 2000ms);
}

// The last rank stops; the others wait until their deadline, and continue.
void stopped(const Scene& scene) {
  const Joined joined = scene.join();
  std::vector<float> data(4 << 20, 1.0f);
  all_reduce(joined, data).wait(kLong);
  if (scene.is_last()) ::raise(SIGSTOP);
  Work work = all_reduce(joined, data);
  auto before = Clock::now();
  const Error late = error_of([&] { work.wait(1000ms); });
  expect(late.code() == RT_ERROR_TIMEOUT, "RT_ERROR_TIMEOUT");
  expect(Clock::now() - before >= 1000ms, "a wait of a second");
  expect_within(before, 2000ms);
  expect_in(late.what(), ": rank " + std::to_string(scene.last()) + " does not answer [");
  expect(!work.poll(), "work that goes on");
  meet_survivors(scene);
  before = Clock::now();
  joined->abort();
  // Another surviving rank may have ended the communicator first; the code is then the second one.
  const rt_status code = error_of([&] { work.wait(kLong); }).code();
  expect(code == RT_ERROR_ABORTED || code == RT_ERROR_COMMUNICATION, "aborted work");
  expect_within(before, 1000ms);
}

// The last rank lives, but is late for the second reduction.
void late(const Scene& scene) {
  const Joined joined = scene.join();
  std::vector<float> data(10, 1.0f);
  all_reduce(joined, data).wait(kLong);
  if (scene.is_last()) scene.store.kv_get("missed", kLong);
  Work work = all_reduce(joined, data);
  if (scene.place.rank == 0) {
    expect_in(error_of([&] { work.wait(1000ms); }).what(),
              ": rank " + std::to_string(scene.last()) + " has come to 1 collectives of 2 [");
    scene.store.kv_set("missed", "");
  }
  work.wait(kLong);
}

void absent(const Scene& scene) {
  if (scene.is_last()) return;
  const auto before = Clock::now();
  const Error error = error_of([&] { scene.join(700ms); });
  expect(error.code() == RT_ERROR_TIMEOUT, "RT_ERROR_TIMEOUT");
  expect_in(error.what(), ": rank " + std::to_string(scene.last()) + ";");
  expect_within(before, 2000ms);
}

// A rank finishes while others have not; they get an error only when they need it.
void left(const Scene& scene) {
  const Joined joined = scene.join();
  if (scene.is_last()) return;
  std::this_thread::sleep_for(300ms);
  const auto error = joined->asynchronous_error();
  expect(!error, "no error because a rank left: " + std::string(error ? error->what() : ""));
  meet_survivors(scene);
  std::vector<float> data(10);
  expect_in(error_of([&] { all_reduce(joined, data).wait(kLong); }).what(),
            "left the communicator");
}

// A communicator whose work can never complete is destroyed.
void destroyed(const Scene& scene) {
  Joined joined = scene.join();
  std::vector<float> data(1 << 20);
  if (scene.is_last()) {
    expect_in(error_of([&] { all_reduce(joined, data).wait(kLong); }).what(), "gave up");
    return;
  }
  rt_collective receive =
      make_collective(RT_RECEIVE, RT_FLOAT32, nullptr, data.data(), data.size());
  receive.peer = scene.last();
  joined->enqueue(receive);
  const auto before = Clock::now();
  joined.reset();
  expect_within(before, 1000ms);
}

// Messages overtake a collective that waits for a rank.
void passing(const Scene& scene) {
  const Joined joined = scene.join();
  std::vector<float> data(100, 1.0f), message(100, 2.0f);
  Work reduction;
  if (scene.place.rank == 0) reduction = all_reduce(joined, data);
  for (int turn = 0; turn < 20; ++turn) {
    const bool sends = (turn % 2 == 0) == (scene.place.rank == 0);
    rt_collective call = make_collective(sends ? RT_SEND : RT_RECEIVE, RT_FLOAT32, message.data(),
                                         message.data(), message.size());
    call.peer = 1 - scene.place.rank;
    joined->enqueue(call).wait(kLong);
  }
  if (scene.place.rank != 0) reduction = all_reduce(joined, data);
  reduction.wait(kLong);
  expect(data[99] == 2.0f, "the sum of both ranks");
}

void refused_interfaces(const Scene& scene) {
  const auto plugin = Plugin::load(scene.plugin, scene.store);
  const auto create = [&](const char* interface) {
    return Communicator::create(plugin, {.prefix = "alone", .interface = interface});
  };
  for (const char* all : {"0.0.0.0", "::", "::0"})
    expect_in(error_of([&] { create(all); }).what(), "all interfaces");
  expect_in(error_of([&] { create("nosuch0"); }).what(), "lo");
  expect_in(error_of([&] { create("192.0.2.1"); }).what(), "192.0.2.1");
  create("lo");
  create("127.0.0.2");
}

// Rank 0 has published an address at which nobody listens. The message says where it was looked
// for.
void unreachable(const Scene& scene) {
  mesh::Endpoint endpoint;
  endpoint.size = 2;
  sockaddr_in closed{};
  closed.sin_family = AF_INET;
  closed.sin_port = htons(1);
  ::inet_pton(AF_INET, "127.0.0.3", &closed.sin_addr);
  std::memcpy(&endpoint.address, &closed, sizeof(closed));
  endpoint.address_bytes = sizeof(closed);
  HostServices store = scene.store;
  store.kv_get = [&](const std::string& key, std::chrono::nanoseconds) {
    const std::string one(reinterpret_cast<const char*>(&endpoint), sizeof(endpoint));
    return key == "test/all" ? one + one : one;
  };
  const auto plugin = Plugin::load(scene.plugin, store);
  const Error error = error_of([&] {
    Communicator::create(
        plugin, {.rank = 1, .world_size = 2, .prefix = "test", .interface = "lo", .timeout = 20s});
  });
  expect_in(error.what(), "rank 0 at 127.0.0.3, port 1: Connection refused");
}

// A foreign client that knows the port of a rank.
class Stranger {
 public:
  enum Kind { kSilent, kNoise, kReset, kSlow, kImpostor, kKinds };

  Stranger(const sockaddr_in& port, Kind kind) : kind_(kind) {
    file_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    // The port may be closed already; then what follows has no effect.
    static_cast<void>(::connect(file_, reinterpret_cast<const sockaddr*>(&port), sizeof(port)));
    if (kind == kReset) leave_with_reset();
    if (kind == kNoise) say(std::string(1000, '\x5a'));
    if (kind == kImpostor) say(greeting_without_secret());
  }
  ~Stranger() {
    if (file_ >= 0) ::close(file_);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  void go_on() {
    if (kind_ == kSlow) say("x");
  }

 private:
  // The first message of rank 1 of two, without the secret of rank 0.
  static std::string greeting_without_secret() {
    std::string text("\0RTGLOO2", 8);
    const int32_t rank = 1, size = 2;
    text.append(reinterpret_cast<const char*>(&rank), sizeof(rank));
    text.append(reinterpret_cast<const char*>(&size), sizeof(size));
    return text + std::string(16, '\0');
  }
  void say(const std::string& text) const {
    if (::send(file_, text.data(), text.size(), MSG_NOSIGNAL) < 0 && errno == EAGAIN) ::usleep(1);
  }
  void leave_with_reset() {
    const linger at_once{1, 0};
    ::setsockopt(file_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    ::close(std::exchange(file_, -1));
  }

  const Kind kind_;
  int file_ = -1;
};

// Ranks 0 and 1 join. The third process connects to the port of rank 0 before rank 1 does, and
// keeps sending garbage, resetting connections and the like until both ranks have ended. More of
// its connections stay open than the rank's listen queue has places.
void strangers(const Scene& scene) {
  if (scene.is_last()) {
    const std::string published = scene.store.kv_get("test/0", kLong);
    expect(published.size() == sizeof(mesh::Endpoint), "an endpoint");
    mesh::Endpoint endpoint;
    std::memcpy(&endpoint, published.data(), sizeof(endpoint));
    sockaddr_in port{};
    std::memcpy(&port, &endpoint.address, sizeof(port));
    std::deque<Stranger> all;
    for (int i = 0;; ++i) {
      all.emplace_back(port, static_cast<Stranger::Kind>(i % Stranger::kKinds));
      for (Stranger& stranger : all) stranger.go_on();
      if (all.size() > 300) all.pop_front();
      if (i == 300) scene.store.kv_set("spoiled", "");
    }
  }
  HostServices slow = scene.store;
  slow.kv_get = [&](const std::string& key, std::chrono::nanoseconds timeout) {
    scene.store.kv_get("spoiled", kLong);
    return scene.store.kv_get(key, timeout);
  };
  const auto plugin = Plugin::load(scene.plugin, slow);
  const Joined joined = Communicator::create(
      plugin, {.rank = scene.place.rank, .world_size = 2, .prefix = "test", .timeout = 20s});
  std::vector<float> data(1 << 20, 1.0f);
  for (int i = 0; i < 5; ++i) all_reduce(joined, data).wait(kLong);
  expect(data[7] == 32.0f, "the sum of both ranks, five times");
}

// If the calls of the ranks do not agree, every rank gets an error, and the error of at least one
// rank says that they disagree. That rank ends the communicator; the other rank may notice the end
// before it has noticed the disagreement, and its error then says only that.
// The last rank makes the call `other`, and the others an all-reduce of 10 elements.
template <class Call>
void disagree(const Scene& scene, Call other) {
  const Joined joined = scene.join();
  std::vector<float> data(10, 1.0f);
  const Error error = error_of([&] {
    Work work = scene.is_last() ? other(joined, data) : all_reduce(joined, data);
    work.wait(kLong);
  });
  expect(error.code() == RT_ERROR_COMMUNICATION, "RT_ERROR_COMMUNICATION");
  scene.store.kv_set("said/" + std::to_string(scene.place.rank), error.what());
  std::string said;
  for (int rank = 0; rank < scene.place.size; ++rank)
    said += scene.store.kv_get("said/" + std::to_string(rank), kLong);
  expect_in(said, "the ranks disagree");
}

void disagreeing(const Scene& scene) {
  disagree(scene, [](const Joined& joined, std::vector<float>& data) {
    data.resize(20);
    return all_reduce(joined, data);
  });
}
// One call goes through shared memory and the other one as a message, so that the ranks wait for
// each other in different places.
void disagreeing_in_way(const Scene& scene) {
  disagree(scene, [](const Joined& joined, std::vector<float>& data) {
    rt_collective broadcast =
        make_collective(RT_BROADCAST, RT_FLOAT32, data.data(), data.data(), data.size());
    broadcast.peer = 0;
    return joined->enqueue(broadcast);
  });
}

int run(const char* plugin, const std::string& name, std::map<std::string, std::string> options) {
  const std::map<std::string, void (*)(const Scene&)> scenarios = {
      {"killed_reducing", killed_reducing},
      {"killed_idle", killed_idle},
      {"killed_in_split", killed_in_split},
      {"absent_from_split", absent_from_split},
      {"stopped", stopped},
      {"late", late},
      {"absent", absent},
      {"left", left},
      {"destroyed", destroyed},
      {"passing", passing},
      {"strangers", strangers},
      {"disagreeing", disagreeing},
      {"disagreeing_in_way", disagreeing_in_way},
      {"refused_interfaces", refused_interfaces},
      {"unreachable", unreachable}};
  const RankPlace place = rank_place();
  scenarios.at(name)({place, plugin, file_store(place.store), std::move(options)});
  return 0;
}

}  // namespace
}  // namespace collectives::testing

int main(int argc, char** argv) {
  try {
    std::setvbuf(stdout, nullptr, _IONBF, 0);
    std::map<std::string, std::string> options;
    for (int i = 3; i < argc; ++i) {
      const std::string option = argv[i];
      options[option.substr(0, option.find('='))] = option.substr(option.find('=') + 1);
    }
    if (argc >= 3) return collectives::testing::run(argv[1], argv[2], std::move(options));
    std::fprintf(stderr, "usage: %s <plugin> <scenario> [<option>=<value>...]\n", argv[0]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  return 1;
}
