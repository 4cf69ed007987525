// Tries all addresses of a host until one answers in time, and keeps connections for the next
// request.
#include "runtime/launch/server_connections.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "plugins/host/text.h"
#include "runtime/error.h"

namespace runtime::launch {
namespace {

using namespace std::chrono_literals;

// A connection that was lost is made again within this.
constexpr auto kAgain = 500ms;

// A connection on which nothing is sent ends this long after the other machine has gone without a
// word: 15 s, and three probes each 5 s.
void notice_dead_peer(int socket) {
  const int on = 1, idle = 15, between = 5, probes = 3;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

}  // namespace

// Waits on a connection of its own.
class ServerConnections::AnswerBell : public watch::Bell {
 public:
  AnswerBell(ServerConnections& connections, std::string request,
             std::function<bool(int, SocketDeadline)> receive)
      : connections_(connections),
        request_(std::move(request)),
        receive_(std::move(receive)),
        socket_(connections_.take()) {
    talk([&](SocketDeadline deadline) { send_all(socket_.get(), request_, deadline); });
  }
  std::vector<int> descriptors() const override { return {socket_.get()}; }
  bool rings() override {
    pollfd entry{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    while (!rings_ && ::poll(&entry, 1, 0) > 0)
      talk([&](SocketDeadline deadline) {
        rings_ = receive_(socket_.get(), deadline);
        if (!rings_) send_all(socket_.get(), request_, deadline);
      });
    return rings_;
  }

 private:
  void talk(const std::function<void(SocketDeadline)>& exchange) {
    try {
      exchange(SocketDeadline::clock::now() + connections_.server_.answer);
    } catch (const std::system_error& error) {
      connections_.fail(error.what(), connections_.server_.gone);
    }
  }

  ServerConnections& connections_;
  const std::string request_;
  const std::function<bool(int, SocketDeadline)> receive_;
  const plugins::host::Descriptor socket_;
  bool rings_ = false;
};

std::unique_ptr<watch::Bell> ServerConnections::bell(
    const std::string& request, std::function<bool(int socket, SocketDeadline)> receive) {
  return std::make_unique<AnswerBell>(*this, request, std::move(receive));
}

void ServerConnections::fail(const std::string& what, const std::string& remedy) const {
  throw CommunicationError(server_.name + ": " + what + "; " + remedy);
}

// Makes one attempt at each address of the host.
plugins::host::Descriptor ServerConnections::dial(const std::string& host,
                                                  SocketDeadline deadline) const {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int code = ::getaddrinfo(host.c_str(), server_.port.c_str(), &hints, &list); code != 0)
    throw std::runtime_error(::gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  int error = ECONNREFUSED;
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    plugins::host::Descriptor socket(
        ::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) continue;
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    notice_dead_peer(socket.get());
    socklen_t bytes = sizeof error;
    if (::connect(socket.get(), a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS) {
      error = errno;
      continue;
    }
    try {
      await_socket(socket.get(), POLLOUT, std::min(deadline, SocketDeadline::clock::now() + 3s));
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    } catch (const std::system_error& silent) {
      error = silent.code().value();  // another address may answer
    }
    if (error == 0) return socket;
  }
  lose_connection("connecting", error);
}

plugins::host::Descriptor ServerConnections::greet(const std::string& host,
                                                   SocketDeadline deadline) const {
  plugins::host::Descriptor socket = dial(host, deadline);
  server_.hello(socket.get(), std::min(deadline, SocketDeadline::clock::now() + server_.answer));
  return socket;
}

// `answered` becomes the host that has.
plugins::host::Descriptor ServerConnections::connect(SocketDeadline deadline,
                                                     const std::string& remedy,
                                                     std::string& answered) const {
  for (;;) {
    std::string why;
    for (const std::string& host : server_.hosts) {
      try {
        plugins::host::Descriptor socket = greet(host, deadline);
        answered = host;
        return socket;
      } catch (const CommunicationError& final) {
        // One of several may be another machine.
        if (server_.hosts.size() == 1) throw CommunicationError(server_.name + ": " + final.what());
        why = final.what();
      } catch (const std::exception& error) {
        why = error.what();
      }
    }
    if (SocketDeadline::clock::now() + 50ms >= deadline) fail("cannot connect: " + why, remedy);
    std::this_thread::sleep_for(50ms);
  }
}

void ServerConnections::open(SocketDeadline deadline) {
  std::string answered;
  plugins::host::Descriptor socket = connect(deadline, server_.absent, answered);
  server_.hosts = {answered};
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(socket));
}

// Returns a connection that no thread uses, or a new one.
plugins::host::Descriptor ServerConnections::take() {
  if (const std::lock_guard lock(mutex_); !idle_.empty()) {
    plugins::host::Descriptor socket = std::move(idle_.back());
    idle_.pop_back();
    return socket;
  }
  std::string answered;
  return connect(SocketDeadline::clock::now() + kAgain, server_.gone, answered);
}

void ServerConnections::use(std::chrono::milliseconds wait,
                            const std::function<void(int socket, SocketDeadline deadline)>& talk) {
  const SocketDeadline deadline = SocketDeadline::clock::now() + wait + server_.answer;
  plugins::host::Descriptor socket;
  if (const std::lock_guard lock(mutex_); !idle_.empty()) {
    socket = std::move(idle_.back());
    idle_.pop_back();
  }
  SocketDeadline made = deadline;
  std::string answered;
  for (bool reused = static_cast<bool>(socket);; reused = false) {
    try {
      if (!reused) socket = connect(made, server_.gone, answered);
      talk(socket.get(), deadline);
      const std::lock_guard lock(mutex_);
      idle_.push_back(std::move(socket));
      return;
    } catch (const std::system_error& error) {
      socket.close();
      made = std::min(deadline, SocketDeadline::clock::now() + kAgain);
      if (!reused || error.code().value() == ETIMEDOUT)
        fail(error.what() + std::string(" (limit ") +
                 plugins::host::seconds_text(wait + server_.answer) + ")",
             server_.gone);
    }
  }
}

}  // namespace runtime::launch
