#include "mesh.h"

#include <gloo/common/error.h>
#include <gloo/common/logging.h>

#include <atomic>
#include <condition_variable>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "lane.h"
#include "rt/sdk/error.h"

namespace collectives::gloo {
namespace {

using rt::sdk::Error;
using rt::sdk::format;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr uint64_t kGreetingSlot = uint64_t{0x51} << 56;
constexpr uint64_t kFarewellSlot = uint64_t{0x52} << 56;
constexpr uint64_t kHeardSlot = uint64_t{0x54} << 56;
constexpr uint64_t kMagic = 0x314f4f4c47545200;  // "\0RTGLOO1"

struct Greeting {
  uint64_t magic = kMagic;
  int32_t rank = 0;
  int32_t size = 0;
};

Milliseconds left(Deadline deadline) {
  const auto rest = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
  return std::max(rest, Milliseconds(1));  // 0 means "no timeout" to Gloo
}

Error timeout_error(const Membership& membership, const std::string& ranks, const char* what) {
  return Error(
      RT_ERROR_TIMEOUT,
      format("communicator '%s' of %d ranks: rank %d waited for these ranks, which %s in "
             "time: %s; see whether they run, or give init_timeout_s a larger value",
             membership.prefix.c_str(), membership.size, membership.rank, what, ranks.c_str()),
      RT_SCOPE_COMMUNICATOR);
}

Error lost_error(const Membership& membership, const std::string& ranks, const char* why) {
  return Error(
      RT_ERROR_COMMUNICATION,
      format("communicator '%s' of %d ranks: rank %d lost these ranks while it joined: "
             "%s (%s); see their output, and that nobody else connects to their ports",
             membership.prefix.c_str(), membership.size, membership.rank, ranks.c_str(), why),
      RT_SCOPE_COMMUNICATOR);
}

std::string key_of(const Membership& membership, int rank) {
  return membership.prefix + "/" + std::to_string(rank);
}

// What every other rank has published, by rank; `bytes` each.
std::vector<std::vector<char>> fetch_all(const rt_host& host, const Membership& membership,
                                         std::size_t bytes, Deadline deadline) {
  std::vector<std::vector<char>> all(static_cast<std::size_t>(membership.size));
  std::string missing;
  for (int rank = 0; rank < membership.size; ++rank) {
    if (rank == membership.rank) continue;
    auto& value = all[static_cast<std::size_t>(rank)];
    value.resize(bytes);
    uint64_t size = bytes;
    const auto rest = std::chrono::nanoseconds(deadline - Clock::now()).count();
    rt_error error{};
    error.size = sizeof(error);
    const rt_status status = host.kv_get(host.context, key_of(membership, rank).c_str(),
                                         value.data(), &size, std::max<int64_t>(rest, 0), &error);
    if (status == RT_ERROR_TIMEOUT) {
      missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    } else if (status != RT_OK || size != bytes) {
      const std::string why = status != RT_OK ? error.message
                                              : format(
                                                    "it published %llu bytes, not %zu: its "
                                                    "world has another size",
                                                    static_cast<unsigned long long>(size), bytes);
      throw lost_error(membership, std::to_string(rank), why.c_str());
    }
  }
  if (!missing.empty()) throw timeout_error(membership, missing, "did not come");
  return all;
}

// Closes all pairs at the deadline unless destroyed before: a Pair::connect that waits then
// returns. Its own timeout would start anew with each pair.
class Alarm {
 public:
  Alarm(::gloo::transport::Context& transport, Deadline deadline)
      : thread_([&transport, deadline](std::stop_token stop) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any never;
          never.wait_until(lock, stop, deadline, [] { return false; });
          if (stop.stop_requested()) return;
          for (int rank = 0; rank < transport.size; ++rank) {
            if (rank != transport.rank) transport.getPair(rank)->close();
          }
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace

Deadline deadline_in(int64_t timeout_ns) {
  constexpr auto kCentury = std::chrono::hours(24 * 36525);
  return Clock::now() +
         std::min<std::chrono::nanoseconds>(std::chrono::nanoseconds(timeout_ns), kCentury);
}

Mesh::Mesh(const rt_host& host, const Membership& membership, Device device, Deadline deadline)
    : ::gloo::Context(membership.rank, membership.size),
      last_words_(static_cast<std::size_t>(membership.size)) {
  transport_ = device->createContext(rank, size);
  transport_->setTimeout(left(deadline));
  wires_ = std::make_shared<Wires>(transport_);
  device_ = std::move(device);
  transportContext_ = wires_;
  if (size == 1) return;
  publish_addresses(host, membership);
  connect_pairs(host, membership, deadline);
  greet(membership, deadline);
}

// A pair listens on a port of its own, so the value has one address for each other rank.
void Mesh::publish_addresses(const rt_host& host, const Membership& membership) {
  std::vector<char> all;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const auto& pair = transport_->createPair(peer);
    pair->setLocalRank(0);
    const std::vector<char> address = pair->address().bytes();
    all.insert(all.end(), address.begin(), address.end());
  }
  rt_error error{};
  error.size = sizeof(error);
  if (host.kv_set(host.context, key_of(membership, rank).c_str(), all.data(), all.size(), &error)) {
    throw Error(RT_ERROR_COMMUNICATION,
                format("cannot publish the addresses of rank %d: %s", rank, error.message));
  }
}

void Mesh::connect_pairs(const rt_host& host, const Membership& membership, Deadline deadline) {
  const std::size_t bytes = transport_->getPair(rank == 0 ? 1 : 0)->address().bytes().size();
  const auto published =
      fetch_all(host, membership, bytes * static_cast<std::size_t>(size - 1), deadline);
  std::optional<Alarm> alarm;
  {
    const BlockedSignals inherited(BlockedSignals::kAll);
    alarm.emplace(*transport_, deadline);
  }
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const auto place = static_cast<std::size_t>(rank > peer ? rank - 1 : rank) * bytes;
    const char* address = published[static_cast<std::size_t>(peer)].data() + place;
    try {
      transport_->getPair(peer)->connect({address, address + bytes});
    } catch (const std::exception& e) {
      if (Clock::now() < deadline) throw lost_error(membership, std::to_string(peer), e.what());
    }
    if (Clock::now() >= deadline)
      throw timeout_error(membership, std::to_string(peer), "did not connect");
  }
}

// A connection alone proves nothing: a stranger may have been the first to connect to the port of a
// pair. Who has greeted awaits farewells, so that they can be sent at once from then on.
void Mesh::greet(const Membership& membership, Deadline deadline) {
  Greeting mine{kMagic, rank, size};
  std::vector<Greeting> theirs(static_cast<std::size_t>(size), Greeting{0, 0, 0});
  const auto send = transport_->createUnboundBuffer(&mine, sizeof(mine));
  const auto receive =
      transport_->createUnboundBuffer(theirs.data(), theirs.size() * sizeof(Greeting));
  const auto greeted = [&](int peer) {
    const Greeting& g = theirs[static_cast<std::size_t>(peer)];
    return g.magic == kMagic && g.rank == peer && g.size == size;
  };
  farewells_ =
      wires_->createUnboundBuffer(last_words_.data(), last_words_.size() * sizeof(int32_t));
  heard_ = transport_->createUnboundBuffer(last_words_.data(), 1);
  try {
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      farewells_->recv(peer, kFarewellSlot, static_cast<std::size_t>(peer) * sizeof(int32_t),
                       sizeof(int32_t));
      heard_->send(peer, kHeardSlot);
      receive->recv(peer, kGreetingSlot, static_cast<std::size_t>(peer) * sizeof(Greeting),
                    sizeof(Greeting));
      send->send(peer, kGreetingSlot);
    }
    for (int i = 0; i < size - 1; ++i) receive->waitRecv(left(deadline));
    for (int i = 0; i < size - 1; ++i) send->waitSend(left(deadline));
  } catch (const ::gloo::IoException& e) {
    const bool late = Clock::now() >= deadline;
    std::string ranks;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank || greeted(peer) || !(late || wires_->is_lost(peer))) continue;
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(peer);
    }
    if (late) throw timeout_error(membership, ranks, "connected but did not greet");
    throw lost_error(membership, ranks, e.what());
  }
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank && !greeted(peer))
      throw lost_error(membership, std::to_string(peer), "it greets as somebody else");
  }
}

char* Mesh::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_ = std::make_unique_for_overwrite<char[]>(bytes);
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

int32_t Mesh::last_word(int peer) {
  return std::atomic_ref(last_words_[static_cast<std::size_t>(peer)]).load();
}

void Mesh::wait_last_word() { farewells_->waitRecv(); }

// A connection that is closed with unread data in it may take away what its peer has not read yet.
// So the connection is closed after the peer's I/O thread, which handles messages in order, has
// carried out a send that it keeps open for this purpose.
void Mesh::leave(int32_t last_word) {
  wires_->say(last_word, kFarewellSlot);
  char answer = 0;
  std::vector<std::unique_ptr<::gloo::transport::UnboundBuffer>> answers;
  const auto try_with = [](const auto& body) {
    try {
      body();
    } catch (const ::gloo::Exception&) {  // this peer is gone, or the time is over
    }
  };
  for (int peer = 0; peer < size; ++peer) {
    auto buffer = transport_->createUnboundBuffer(&answer, sizeof(answer));
    try_with([&] {
      if (peer == rank) return;
      buffer->recv(peer, kHeardSlot);
      answers.push_back(std::move(buffer));
    });
  }
  const Deadline deadline = Clock::now() + Milliseconds(200);
  for (const auto& buffer : answers) try_with([&] { buffer->waitRecv(left(deadline)); });
  wires_->close();
}

}  // namespace collectives::gloo
