// Listens and connects until each pair of ranks has exchanged hellos, and turns strangers away.
#include "collectives/mesh/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>

#include "rt/sdk/error.h"

namespace collectives::mesh {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using rt::sdk::Error;
using rt::sdk::format;

constexpr uint64_t kMagic = 0x324f4f4c47545200;  // "\0RTGLOO2"
// Pause between two attempts to connect to a rank.
constexpr Milliseconds kPause{20};
// A rank whose port has been closed for this long is gone: a rank listens before it publishes its
// endpoint, and until all have connected.
constexpr Milliseconds kRefused{1000};
// Largest number of connections whose rank is not known yet. If one more arrives, the oldest is
// closed.
constexpr std::size_t kStrangers = 128;
constexpr int kWaiting = 1024;  // connections that the kernel queues for accept()

using Secret = decltype(Endpoint::secret);

// What both sides of a connection send first.
struct Hello {
  uint64_t magic = kMagic;
  int32_t rank = 0;
  int32_t size = 0;
  Secret secret{};  // the secret of the receiving side
};

// A connection whose hellos have not been exchanged yet.
struct Handshake {
  Socket socket;
  bool connecting = false;
  std::size_t received = 0;  // bytes of `theirs` that have arrived
  Hello theirs;
  bool over = false;
};

enum class Progress { kWaits, kDone, kFailed };

// "10.0.0.2, port 4711": where a rank waits for its peers. The address says on which host it runs.
std::string place_of(const Endpoint& rank) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&rank.address), rank.address_bytes,
                    host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  return format("%s, port %s", host.data(), port.data());
}

// Sends the whole hello, for which one call of send() may not suffice. The buffer of a new
// connection has room for it, so this does not block. On failure errno has the reason.
bool send_whole(const Socket& socket, const Hello& hello) {
  const auto* const bytes = reinterpret_cast<const char*>(&hello);
  for (std::size_t sent_bytes = 0; sent_bytes < sizeof(hello);) {
    const ssize_t sent =
        ::send(socket.get(), bytes + sent_bytes, sizeof(hello) - sent_bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    sent_bytes += static_cast<std::size_t>(sent);
  }
  return true;
}

// Reads the hello of the other side, and no byte more. On failure errno has the reason.
Progress receive(Handshake& c) {
  while (c.received < sizeof(c.theirs)) {
    const ssize_t bytes = ::recv(c.socket.get(), reinterpret_cast<char*>(&c.theirs) + c.received,
                                 sizeof(c.theirs) - c.received, 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Progress::kWaits;
    if (bytes == 0) errno = ECONNRESET;
    if (bytes <= 0) return Progress::kFailed;
    c.received += static_cast<std::size_t>(bytes);
  }
  return Progress::kDone;
}

Socket make_socket(int family) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (socket) ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return socket;
}

// A rank to which this rank connects.
struct Outgoing {
  int peer = 0;
  Handshake handshake;
  Clock::time_point next = Clock::now();                 // time of the next attempt
  Clock::time_point refused = Clock::time_point::max();  // time of the first refusal in a row
  bool over = false;                                     // whether the rank has answered
};

class Handshakes {
 public:
  Handshakes(int rank, const std::vector<Endpoint>& endpoints, const Socket& listener)
      : rank_(rank), endpoints_(endpoints), listener_(listener) {
    made_.sockets.resize(endpoints.size());
    for (int peer = 0; peer < rank; ++peer) {
      outgoing_.emplace_back();
      outgoing_.back().peer = peer;
    }
  }

  Listener::Connections run(Deadline deadline) {
    while (!complete() && !gone_ && Clock::now() < deadline) step(deadline);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank_ && !socket_of(peer) && gone_.value_or(peer) == peer)
        made_.missing.push_back(peer);
    }
    return std::move(made_);
  }

 private:
  int size() const { return static_cast<int>(endpoints_.size()); }
  Socket& socket_of(int peer) { return made_.sockets[static_cast<std::size_t>(peer)]; }
  const Secret& secret_of(int peer) const {
    return endpoints_[static_cast<std::size_t>(peer)].secret;
  }
  Hello hello_to(int peer) const { return {kMagic, rank_, size(), secret_of(peer)}; }
  // Whether rank `peer` sent `g` to this rank.
  bool is_from(const Hello& g, int peer) const {
    return g.magic == kMagic && g.rank == peer && g.size == size() && g.secret == secret_of(rank_);
  }
  bool complete() {
    return outgoing_.empty() && std::all_of(made_.sockets.begin() + rank_ + 1, made_.sockets.end(),
                                            [](const Socket& s) { return !!s; });
  }

  void step(Deadline deadline);
  void dial(Outgoing& call);
  void go_on(Outgoing& call);
  void fail(Outgoing& call, int error);
  void accept_waiting();
  void answer_to(Handshake& from);

  const int rank_;
  const std::vector<Endpoint>& endpoints_;
  const Socket& listener_;
  Listener::Connections made_;
  std::deque<Outgoing> outgoing_;
  std::deque<Handshake> incoming_;  // their ranks are not known yet; the oldest first
  std::optional<int> gone_;         // a rank that cannot be reached any more
};

// Waits for an event and handles it.
void Handshakes::step(Deadline deadline) {
  Deadline until = deadline;
  std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}};
  for (Outgoing& c : outgoing_) {
    if (!c.handshake.socket && Clock::now() >= c.next) dial(c);
    if (!c.handshake.socket) until = std::min(until, c.next);
    const short events = c.handshake.connecting ? POLLOUT : POLLIN;
    polled.push_back({c.handshake.socket.get(), events, 0});
  }
  for (const Handshake& c : incoming_) polled.push_back({c.socket.get(), POLLIN, 0});
  const auto rest = std::chrono::ceil<Milliseconds>(until - Clock::now()).count();
  const int timeout = static_cast<int>(std::clamp<int64_t>(rest, 0, 1000));
  if (::poll(polled.data(), polled.size(), timeout) <= 0) return;
  std::size_t at = 1;
  for (Outgoing& c : outgoing_) {
    if (polled[at++].revents != 0) go_on(c);
  }
  for (Handshake& c : incoming_) {
    if (polled[at++].revents != 0) answer_to(c);
  }
  std::erase_if(outgoing_, [](const Outgoing& c) { return c.over; });
  std::erase_if(incoming_, [](const Handshake& c) { return c.over; });
  if (polled[0].revents != 0) accept_waiting();
}

void Handshakes::dial(Outgoing& call) {
  const Endpoint& to = endpoints_[static_cast<std::size_t>(call.peer)];
  call.handshake = Handshake();
  call.handshake.socket = make_socket(to.address.ss_family);
  call.handshake.connecting = true;
  if (!call.handshake.socket) return fail(call, errno);
  if (::connect(call.handshake.socket.get(), reinterpret_cast<const sockaddr*>(&to.address),
                to.address_bytes) != 0 &&
      errno != EINPROGRESS)
    fail(call, errno);
}

// Schedules another attempt after a pause, or gives the rank up if its port has been closed for too
// long.
void Handshakes::fail(Outgoing& call, int error) {
  const auto now = Clock::now();
  call.handshake = Handshake();
  call.next = now + kPause;
  if (error != ECONNREFUSED) call.refused = Clock::time_point::max();
  if (error == ECONNREFUSED) call.refused = std::min(call.refused, now);
  if (error == ECONNREFUSED && now - call.refused >= kRefused) gone_ = call.peer;
  made_.why = format("rank %d at %s: %s", call.peer,
                     place_of(endpoints_[static_cast<std::size_t>(call.peer)]).c_str(),
                     std::strerror(error));
}

// Goes on with an attempt to connect to another rank, when its socket has become writable or has
// data.
void Handshakes::go_on(Outgoing& call) {
  Handshake& c = call.handshake;
  if (c.connecting) {
    int error = 0;
    socklen_t bytes = sizeof(error);
    ::getsockopt(c.socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error == 0 && !send_whole(c.socket, hello_to(call.peer))) error = errno;
    c.connecting = false;
    if (error != 0) fail(call, error);
    return;
  }
  const Progress progress = receive(c);
  if (progress == Progress::kWaits) return;
  if (progress == Progress::kFailed) return fail(call, errno);
  if (!is_from(c.theirs, call.peer)) return fail(call, EPROTO);
  socket_of(call.peer) = std::move(c.socket);
  call.over = true;
}

// Accepts at most kStrangers connections at a time, so that strangers who connect quickly do not
// delay the ranks.
void Handshakes::accept_waiting() {
  for (std::size_t i = 0; i < kStrangers; ++i) {
    Socket socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket && (errno == ECONNABORTED || errno == EINTR)) continue;  // it has closed again
    if (!socket && errno != EAGAIN && errno != EWOULDBLOCK) {
      incoming_.clear();  // out of descriptors or memory, perhaps because of these connections
      std::this_thread::sleep_for(kPause);
    }
    if (!socket) return;
    if (incoming_.size() == kStrangers) incoming_.pop_front();
    incoming_.emplace_back();
    incoming_.back().socket = std::move(socket);
  }
}

// A rank that connects a second time has not received the answer to its first hello, so the new
// connection replaces the old one.
void Handshakes::answer_to(Handshake& from) {
  const Progress progress = receive(from);
  if (progress == Progress::kWaits) return;
  from.over = true;
  const int peer = from.theirs.rank;
  if (progress == Progress::kFailed || peer <= rank_ || peer >= size()) return;
  if (!is_from(from.theirs, peer)) return;
  const int on = 1;
  ::setsockopt(from.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (send_whole(from.socket, hello_to(peer))) socket_of(peer) = std::move(from.socket);
}

[[noreturn]] void cannot_listen(const char* call) {
  throw Error(RT_ERROR_COMMUNICATION,
              format("cannot open a port for the other ranks: %s: %s; see 'ulimit -n' and that "
                     "the interface is up",
                     call, std::strerror(errno)));
}

}  // namespace

Listener::Listener(const sockaddr_storage& address, socklen_t address_bytes, int rank, int size)
    : rank_(rank) {
  endpoint_.size = size;
  endpoint_.address = address;
  endpoint_.address_bytes = address_bytes;
  if (::getrandom(endpoint_.secret.data(), endpoint_.secret.size(), 0) !=
      static_cast<ssize_t>(endpoint_.secret.size()))
    cannot_listen("getrandom");
  if (rank + 1 == size) return;  // no rank connects to the last one
  listener_ = make_socket(address.ss_family);
  if (!listener_) cannot_listen("socket");
  auto* const own = reinterpret_cast<sockaddr*>(&endpoint_.address);
  if (::bind(listener_.get(), own, address_bytes) != 0) cannot_listen("bind");
  if (::listen(listener_.get(), kWaiting) != 0) cannot_listen("listen");
  if (::getsockname(listener_.get(), own, &endpoint_.address_bytes) != 0)
    cannot_listen("getsockname");
}

Listener::Connections Listener::connect(const std::vector<Endpoint>& endpoints, Deadline deadline) {
  Connections made = Handshakes(rank_, endpoints, listener_).run(deadline);
  listener_ = Socket();
  return made;
}

}  // namespace collectives::mesh
