// Listens and connects until each pair of ranks has exchanged greetings, and turns strangers away.
#include "door.h"

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

namespace collectives::gloo {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using rt::sdk::Error;
using rt::sdk::format;

constexpr uint64_t kMagic = 0x324f4f4c47545200;  // "\0RTGLOO2"
// Pause between two attempts to connect to a rank.
constexpr Milliseconds kPause{20};
// A rank whose port has been closed for this long is gone: a rank listens before it publishes its
// invitation, and until all have connected.
constexpr Milliseconds kRefused{1000};
// Largest number of connections whose rank is not known yet. If one more arrives, the oldest is
// closed.
constexpr std::size_t kStrangers = 128;
constexpr int kWaiting = 1024;  // connections that the kernel queues for accept()

using Secret = decltype(Invitation::secret);

// What both sides of a connection send first.
struct Greeting {
  uint64_t magic = kMagic;
  int32_t rank = 0;
  int32_t size = 0;
  Secret secret{};  // the secret of the receiving side
};

// A connection whose greetings have not been exchanged yet.
struct Conversation {
  Socket socket;
  bool connecting = false;
  std::size_t heard = 0;  // bytes of `theirs` that have arrived
  Greeting theirs;
  bool over = false;
};

enum class Progress { kWaits, kDone, kFailed };

// "10.0.0.2, port 4711": where a rank waits for its peers. The address says on which host it runs.
std::string place_of(const Invitation& rank) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&rank.address), rank.address_bytes,
                    host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  return format("%s, port %s", host.data(), port.data());
}

// Sends the whole greeting, for which one call of send() may not suffice. The buffer of a new
// connection has room for it, so this does not block. On failure errno has the reason.
bool say(const Socket& socket, const Greeting& greeting) {
  const auto* const bytes = reinterpret_cast<const char*>(&greeting);
  for (std::size_t said = 0; said < sizeof(greeting);) {
    const ssize_t sent = ::send(socket.get(), bytes + said, sizeof(greeting) - said, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    said += static_cast<std::size_t>(sent);
  }
  return true;
}

// Reads the greeting of the other side, and no byte more. On failure errno has the reason.
Progress hear(Conversation& c) {
  while (c.heard < sizeof(c.theirs)) {
    const ssize_t bytes = ::recv(c.socket.get(), reinterpret_cast<char*>(&c.theirs) + c.heard,
                                 sizeof(c.theirs) - c.heard, 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Progress::kWaits;
    if (bytes == 0) errno = ECONNRESET;
    if (bytes <= 0) return Progress::kFailed;
    c.heard += static_cast<std::size_t>(bytes);
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
struct Call {
  int peer = 0;
  Conversation conversation;
  Clock::time_point next = Clock::now();                 // time of the next attempt
  Clock::time_point refused = Clock::time_point::max();  // time of the first refusal in a row
  bool over = false;                                     // whether the rank has answered
};

class Meeting {
 public:
  Meeting(int rank, const std::vector<Invitation>& invitations, const Socket& listener)
      : rank_(rank), invitations_(invitations), listener_(listener) {
    guests_.sockets.resize(invitations.size());
    for (int peer = 0; peer < rank; ++peer) {
      calls_.emplace_back();
      calls_.back().peer = peer;
    }
  }

  Door::Guests run(Deadline deadline) {
    while (!complete() && !gone_ && Clock::now() < deadline) step(deadline);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank_ && !socket_of(peer) && gone_.value_or(peer) == peer)
        guests_.missing.push_back(peer);
    }
    return std::move(guests_);
  }

 private:
  int size() const { return static_cast<int>(invitations_.size()); }
  Socket& socket_of(int peer) { return guests_.sockets[static_cast<std::size_t>(peer)]; }
  const Secret& secret_of(int peer) const {
    return invitations_[static_cast<std::size_t>(peer)].secret;
  }
  Greeting greeting_for(int peer) const { return {kMagic, rank_, size(), secret_of(peer)}; }
  // Whether rank `peer` sent `g` to this rank.
  bool is_from(const Greeting& g, int peer) const {
    return g.magic == kMagic && g.rank == peer && g.size == size() && g.secret == secret_of(rank_);
  }
  bool complete() {
    return calls_.empty() && std::all_of(guests_.sockets.begin() + rank_ + 1, guests_.sockets.end(),
                                         [](const Socket& s) { return !!s; });
  }

  void step(Deadline deadline);
  void call(Call& call);
  void go_on(Call& call);
  void fail(Call& call, int error);
  void let_in();
  void examine(Conversation& caller);

  const int rank_;
  const std::vector<Invitation>& invitations_;
  const Socket& listener_;
  Door::Guests guests_;
  std::deque<Call> calls_;
  std::deque<Conversation> callers_;  // their ranks are not known yet; the oldest first
  std::optional<int> gone_;           // a rank that cannot be reached any more
};

// Waits for an event and handles it.
void Meeting::step(Deadline deadline) {
  Deadline until = deadline;
  std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}};
  for (Call& c : calls_) {
    if (!c.conversation.socket && Clock::now() >= c.next) call(c);
    if (!c.conversation.socket) until = std::min(until, c.next);
    const short events = c.conversation.connecting ? POLLOUT : POLLIN;
    polled.push_back({c.conversation.socket.get(), events, 0});
  }
  for (const Conversation& c : callers_) polled.push_back({c.socket.get(), POLLIN, 0});
  const auto rest = std::chrono::ceil<Milliseconds>(until - Clock::now()).count();
  const int timeout = static_cast<int>(std::clamp<int64_t>(rest, 0, 1000));
  if (::poll(polled.data(), polled.size(), timeout) <= 0) return;
  std::size_t at = 1;
  for (Call& c : calls_) {
    if (polled[at++].revents != 0) go_on(c);
  }
  for (Conversation& c : callers_) {
    if (polled[at++].revents != 0) examine(c);
  }
  std::erase_if(calls_, [](const Call& c) { return c.over; });
  std::erase_if(callers_, [](const Conversation& c) { return c.over; });
  if (polled[0].revents != 0) let_in();
}

void Meeting::call(Call& call) {
  const Invitation& to = invitations_[static_cast<std::size_t>(call.peer)];
  call.conversation = Conversation();
  call.conversation.socket = make_socket(to.address.ss_family);
  call.conversation.connecting = true;
  if (!call.conversation.socket) return fail(call, errno);
  if (::connect(call.conversation.socket.get(), reinterpret_cast<const sockaddr*>(&to.address),
                to.address_bytes) != 0 &&
      errno != EINPROGRESS)
    fail(call, errno);
}

// Schedules another attempt after a pause, or gives the rank up if its port has been closed for too
// long.
void Meeting::fail(Call& call, int error) {
  const auto now = Clock::now();
  call.conversation = Conversation();
  call.next = now + kPause;
  if (error != ECONNREFUSED) call.refused = Clock::time_point::max();
  if (error == ECONNREFUSED) call.refused = std::min(call.refused, now);
  if (error == ECONNREFUSED && now - call.refused >= kRefused) gone_ = call.peer;
  guests_.why = format("rank %d at %s: %s", call.peer,
                       place_of(invitations_[static_cast<std::size_t>(call.peer)]).c_str(),
                       std::strerror(error));
}

// Goes on with an attempt to connect to another rank, when its socket has become writable or has
// data.
void Meeting::go_on(Call& call) {
  Conversation& c = call.conversation;
  if (c.connecting) {
    int error = 0;
    socklen_t bytes = sizeof(error);
    ::getsockopt(c.socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error == 0 && !say(c.socket, greeting_for(call.peer))) error = errno;
    c.connecting = false;
    if (error != 0) fail(call, error);
    return;
  }
  const Progress progress = hear(c);
  if (progress == Progress::kWaits) return;
  if (progress == Progress::kFailed) return fail(call, errno);
  if (!is_from(c.theirs, call.peer)) return fail(call, EPROTO);
  socket_of(call.peer) = std::move(c.socket);
  call.over = true;
}

// Accepts at most kStrangers connections at a time, so that strangers who connect quickly do not
// delay the ranks.
void Meeting::let_in() {
  for (std::size_t i = 0; i < kStrangers; ++i) {
    Socket socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket && (errno == ECONNABORTED || errno == EINTR)) continue;  // it has closed again
    if (!socket && errno != EAGAIN && errno != EWOULDBLOCK) {
      callers_.clear();  // out of descriptors or memory, perhaps because of these connections
      std::this_thread::sleep_for(kPause);
    }
    if (!socket) return;
    if (callers_.size() == kStrangers) callers_.pop_front();
    callers_.emplace_back();
    callers_.back().socket = std::move(socket);
  }
}

// A rank that connects a second time has not received the answer to its first greeting, so the new
// connection replaces the old one.
void Meeting::examine(Conversation& caller) {
  const Progress progress = hear(caller);
  if (progress == Progress::kWaits) return;
  caller.over = true;
  const int peer = caller.theirs.rank;
  if (progress == Progress::kFailed || peer <= rank_ || peer >= size()) return;
  if (!is_from(caller.theirs, peer)) return;
  const int on = 1;
  ::setsockopt(caller.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (say(caller.socket, greeting_for(peer))) socket_of(peer) = std::move(caller.socket);
}

[[noreturn]] void cannot_listen(const char* call) {
  throw Error(RT_ERROR_COMMUNICATION,
              format("cannot open a port for the other ranks: %s: %s; see 'ulimit -n' and that "
                     "the interface is up",
                     call, std::strerror(errno)));
}

}  // namespace

Door::Door(const Device& device, int rank, int size) : rank_(rank) {
  invitation_.size = size;
  invitation_.address = device.address;
  invitation_.address_bytes = device.address_bytes;
  if (::getrandom(invitation_.secret.data(), invitation_.secret.size(), 0) !=
      static_cast<ssize_t>(invitation_.secret.size()))
    cannot_listen("getrandom");
  if (rank + 1 == size) return;  // no rank connects to the last one
  listener_ = make_socket(device.address.ss_family);
  if (!listener_) cannot_listen("socket");
  auto* const address = reinterpret_cast<sockaddr*>(&invitation_.address);
  if (::bind(listener_.get(), address, device.address_bytes) != 0) cannot_listen("bind");
  if (::listen(listener_.get(), kWaiting) != 0) cannot_listen("listen");
  if (::getsockname(listener_.get(), address, &invitation_.address_bytes) != 0)
    cannot_listen("getsockname");
}

Door::Guests Door::meet(const std::vector<Invitation>& invitations, Deadline deadline) {
  Guests guests = Meeting(rank_, invitations, listener_).run(deadline);
  listener_ = Socket();
  return guests;
}

}  // namespace collectives::gloo
