// Forwards connections between two namespaces with delays, and cuts or resets them when told.
#include "tests/end_to_end/faults/proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace runtime::faults {

namespace {

sockaddr_in address_of(const std::string& address, int port) {
  sockaddr_in result = {};
  result.sin_family = AF_INET;
  result.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, address.c_str(), &result.sin_addr);
  return result;
}

// Closes the socket so that the peer receives a RST.
void close_hard(int fd) {
  const linger now = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close(fd);
}

}  // namespace

Proxy::Proxy(const Network& network, Side one, Side other, std::chrono::milliseconds delay)
    : network_(network), sides_{std::move(one), std::move(other)}, delay_(delay), thread_([this] {
        serve();
      }) {
  while (!ready_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

Proxy::~Proxy() {
  stop_ = true;
  thread_.join();
}

void Proxy::open_doors(int side) {
  network_.enter(sides_[side].machine);
  for (int port = kFirstPort; port <= kLastPort; ++port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const sockaddr_in address = address_of(sides_[side].address, port);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd, 16), 0);
    doors_.push_back({fd, port, side});
  }
}

void Proxy::accept(const Door& door) {
  const int from = ::accept4(door.fd, nullptr, nullptr, SOCK_CLOEXEC);
  if (from < 0) return;
  ++connections_;
  network_.enter(sides_[1 - door.side].machine);
  const int to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  const sockaddr_in address = address_of(sides_[door.side].address, door.port);
  if (reset_ || connect(to, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close_hard(from);
    close_hard(to);
    return;
  }
  for (const int fd : {from, to}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  pipes_.push_back({from, to, {}});
  pipes_.push_back({to, from, {}});
}

bool Proxy::pass(Pipe& pipe) {
  std::array<char, 64 * 1024> buffer;
  const ssize_t got = recv(pipe.from, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN)) return false;
  if (got > 0)
    pipe.pending.push_back({Clock::now() + delay_, {buffer.data(), static_cast<size_t>(got)}});
  while (!pipe.pending.empty() && pipe.pending.front().due <= Clock::now()) {
    std::string& bytes = pipe.pending.front().bytes;
    const ssize_t sent = send(pipe.to, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN;
    bytes.erase(0, static_cast<size_t>(sent));
    if (!bytes.empty()) return true;
    pipe.pending.pop_front();
  }
  return true;
}

// A connection that one side closes is closed on the other side as well.
void Proxy::close_all() {
  for (const Pipe& pipe : pipes_) close_hard(pipe.from);
  pipes_.clear();
}

void Proxy::serve() {
  open_doors(0);
  open_doors(1);
  ready_ = true;
  while (!stop_) {
    std::vector<pollfd> polled;
    for (const Door& door : doors_) polled.push_back({door.fd, POLLIN, 0});
    poll(polled.data(), polled.size(), 1);
    for (size_t i = 0; i < doors_.size(); ++i)
      if (polled[i].revents != 0) accept(doors_[i]);
    if (reset_) close_all();
    for (Pipe& pipe : pipes_) {
      if (pass(pipe)) continue;
      close_all();
      break;
    }
  }
  close_all();
  for (const Door& door : doors_) close(door.fd);
}

}  // namespace runtime::faults
