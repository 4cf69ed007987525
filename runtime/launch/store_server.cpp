// One loop over poll() that reads requests and answers them, at once or when a key is set.
#include "runtime/launch/store_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <vector>

#include "runtime/launch/store.h"
#include "runtime/launch/store_messages.h"

namespace runtime::launch {
namespace {

using plugins::host::Descriptor;

// A connection must send its hello within this time.
constexpr std::chrono::seconds kHelloTime{5};
// If more connections than these have sent no hello, the oldest is closed.
constexpr std::size_t kMostStrangers = 128;
constexpr std::size_t kMostBytes = std::size_t{256} << 20;  // of all keys and values
constexpr int kQueued = 1024;  // connections that the kernel keeps for accept()
// A connection is not read while so many bytes of it wait to be handled or sent. A request fits.
constexpr std::size_t kMostUnsent = 2 * kLargestValue;
constexpr std::size_t kMostClients = 20000;  // connections of ranks
constexpr std::chrono::milliseconds kBreath{20};

[[noreturn]] void cannot_listen(int port, int error) {
  throw CommunicationError(
      "the store of this job cannot listen on port " + std::to_string(port) +
      " of rank 0: " + std::strerror(error) +
      (error == EADDRINUSE
           ? "; another job or torchrun uses it: choose a free port (MASTER_PORT, "
             "comm.rendezvous_address = \"tcp://HOST:PORT\", or --rendezvous of runtime launch)"
           : "; choose another port, or another comm.rendezvous"));
}

// The loopback address that `host` is, or every address: then `host` becomes a name under which
// this process reaches itself.
std::vector<sockaddr_storage> addresses_for(std::string& host, int port) {
  sockaddr_in6 of6{};
  of6.sin6_family = AF_INET6;
  of6.sin6_port = htons(static_cast<uint16_t>(port));
  sockaddr_in of4{};
  of4.sin_family = AF_INET;
  of4.sin_port = of6.sin6_port;
  const bool is4 = ::inet_pton(AF_INET, host.c_str(), &of4.sin_addr) == 1 &&
                   ntohl(of4.sin_addr.s_addr) >> 24 == 127;
  const bool is6 = ::inet_pton(AF_INET6, host.c_str(), &of6.sin6_addr) == 1 &&
                   IN6_IS_ADDR_LOOPBACK(&of6.sin6_addr);
  if (!is4 && !is6) {
    host = "localhost";
    of6.sin6_addr = in6addr_any;
    of4.sin_addr.s_addr = htonl(INADDR_ANY);  // where the kernel has no IPv6
  }
  std::vector<sockaddr_storage> found;
  if (!is4) std::memcpy(&found.emplace_back(), &of6, sizeof of6);
  if (!is6) std::memcpy(&found.emplace_back(), &of4, sizeof of4);
  return found;
}

// On failure errno has the reason.
Descriptor listen_on(const sockaddr_storage& address) {
  Descriptor socket(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1, off = 0;
  if (!socket) return socket;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.ss_family == AF_INET6)
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const socklen_t bytes =
      address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      ::listen(socket.get(), kQueued) != 0)
    return Descriptor();
  return socket;
}

// Takes equally long wherever the texts differ.
bool is_same_secret(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (std::size_t i = 0; i < secret.size(); ++i)
    difference |= static_cast<unsigned char>(i < given.size() ? given[i] : 0) ^
                  static_cast<unsigned char>(secret[i]);
  return difference == 0;
}

std::string answer(char kind, const std::string& value = "") {
  std::string bytes(1, kind);
  wire::add_number(bytes, value.size());
  return bytes + value;
}

}  // namespace

StoreServer::StoreServer(const std::string& host, int port, std::string secret)
    : secret_(std::move(secret)), own_host_(host) {
  int error = 0;
  for (const sockaddr_storage& address : addresses_for(own_host_, port)) {
    if (!listener_) listener_ = listen_on(address);
    if (!listener_ && error != EADDRINUSE) error = errno;
  }
  int ends[2];
  if (!listener_) cannot_listen(port, error);
  if (::pipe2(ends, O_CLOEXEC) != 0) cannot_listen(port, errno);
  stopped_ = Descriptor(ends[0]);
  stop_ = Descriptor(ends[1]);
  sockaddr_storage own{};
  socklen_t bytes = sizeof own;
  ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&own), &bytes);
  port_ = ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&own)->sin6_port
                                          : reinterpret_cast<sockaddr_in*>(&own)->sin_port);
  // Signals belong to the threads of the program.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& refused) {
    error = refused.code().value();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!thread_.joinable()) cannot_listen(port, error);
}

StoreServer::~StoreServer() {
  while (::write(stop_.get(), "", 1) < 0 && errno == EINTR) continue;
  thread_.join();
}

void StoreServer::run() {
  for (bool more = true; more;) {
    try {
      more = go_on();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kBreath);
    }
  }
}

// The time until something is to be done even if nobody sends anything; -1: forever.
int StoreServer::next_ms() const {
  constexpr auto kNever = Clock::time_point::max();
  Clock::time_point next = end_.value_or(kNever);
  for (const Client& c : clients_)
    next = std::min(
        {next, c.awaited.empty() ? kNever : c.until, c.known ? kNever : c.since + kHelloTime});
  if (next == kNever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

// Waits for something to do, and does it. Returns false at the end.
bool StoreServer::go_on() {
  std::vector<pollfd> files = {{end_ ? -1 : stopped_.get(), POLLIN, 0},
                               {end_ ? -1 : listener_.get(), POLLIN, 0}};
  for (const Client& c : clients_) {
    const bool reads = c.in.size() + c.out.size() < kMostUnsent;
    files.push_back({c.socket.get(),
                     static_cast<short>((reads ? POLLIN : 0) | (c.out.empty() ? 0 : POLLOUT)), 0});
  }
  ::poll(files.data(), files.size(), next_ms());
  auto file = files.begin() + 2;
  for (Client& client : clients_)
    if (((file++)->revents & (POLLIN | POLLHUP | POLLERR)) != 0) receive(client);
  const auto now = Clock::now();
  end_waits(now);
  for (Client& client : clients_) send(client);
  clients_.remove_if([&](const Client& c) {
    return c.lost || (c.over && c.out.empty()) || (!c.known && now - c.since > kHelloTime);
  });
  if (files[1].revents != 0) accept_all();
  if (files[0].revents != 0) end_ = now + linger_.load();
  const bool any = std::any_of(clients_.begin(), clients_.end(),
                               [](const Client& client) { return client.known; });
  return !end_ || (any && now < *end_);
}

void StoreServer::accept_all() {
  for (std::size_t i = 0; i < kMostStrangers; ++i) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const auto is_stranger = [](const Client& client) { return !client.known; };
    if (!socket && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      clients_.remove_if(is_stranger);  // out of descriptors, perhaps because of them
      std::this_thread::sleep_for(kBreath);
    }
    if (!socket) return;
    if (clients_.size() >= kMostClients) continue;
    if (std::count_if(clients_.begin(), clients_.end(), is_stranger) >=
        static_cast<std::ptrdiff_t>(kMostStrangers))
      clients_.erase(std::find_if(clients_.begin(), clients_.end(), is_stranger));
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    clients_.push_back({std::move(socket)});
  }
}

void StoreServer::receive(Client& client) {
  std::array<char, 65536> bytes;
  const ssize_t count = ::recv(client.socket.get(), bytes.data(), bytes.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  client.lost = client.lost || count <= 0;
  if (count <= 0 || client.over) return;
  client.in.append(bytes.data(), static_cast<std::size_t>(count));
  handle(client);
}

void StoreServer::send(Client& client) {
  if (client.out.empty()) return;
  const ssize_t count =
      ::send(client.socket.get(), client.out.data(), client.out.size(), MSG_NOSIGNAL);
  if (count > 0) client.out.erase(0, static_cast<std::size_t>(count));
  if (count < 0 && errno != EAGAIN && errno != EINTR) client.lost = true;
}

void StoreServer::handle(Client& client) {
  if (client.lost || (!client.known && !handle_hello(client))) return;
  while (client.awaited.empty() && client.out.size() < kMostUnsent && handle_request(client))
    continue;
}

// Returns whether the client may go on.
bool StoreServer::handle_hello(Client& client) {
  const std::size_t head = wire::kMagic.size() + wire::kNumber;
  const std::string_view begin = std::string_view(client.in).substr(0, wire::kMagic.size());
  client.lost = begin != wire::kMagic.substr(0, begin.size());
  if (client.lost || client.in.size() < head) return false;
  const std::size_t bytes = wire::number_at(client.in, wire::kMagic.size());
  client.lost = bytes > wire::kMostSecret;
  if (client.lost || client.in.size() < head + bytes) return false;
  client.known = is_same_secret(std::string_view(client.in).substr(head, bytes), secret_);
  client.over = !client.known;
  client.out.push_back(client.known ? wire::kWelcome : wire::kWrongSecret);
  client.in.erase(0, head + bytes);
  return client.known;
}

// Returns whether a whole request was there.
bool StoreServer::handle_request(Client& client) {
  if (client.in.size() < wire::kRequestHead) return false;
  const char kind = client.in[0];
  const std::size_t wait = wire::number_at(client.in, 1),
                    key_bytes = wire::number_at(client.in, 1 + wire::kNumber),
                    value_bytes = wire::number_at(client.in, 1 + 2 * wire::kNumber);
  client.lost = (kind != wire::kSet && kind != wire::kGet) || key_bytes == 0 ||
                key_bytes > wire::kMostKey ||
                value_bytes > (kind == wire::kSet ? kLargestValue : 0);
  const std::size_t all = wire::kRequestHead + key_bytes + value_bytes;
  if (client.lost || client.in.size() < all) return false;
  std::string key = client.in.substr(wire::kRequestHead, key_bytes);
  std::string value = client.in.substr(wire::kRequestHead + key_bytes, value_bytes);
  client.in.erase(0, all);
  if (kind == wire::kSet) {
    set(client, key, std::move(value));
  } else if (const auto found = values_.find(key); found != values_.end()) {
    client.out += answer(wire::kFound, found->second);
  } else if (wait == 0) {
    client.out += answer(wire::kNothing);
  } else {
    client.awaited = std::move(key);
    client.until = Clock::now() + std::chrono::milliseconds(wait);
  }
  return true;
}

void StoreServer::set(Client& client, const std::string& key, std::string value) {
  const auto old = values_.find(key);
  const std::size_t before = old == values_.end() ? 0 : key.size() + old->second.size();
  const std::size_t after = bytes_ - before + key.size() + value.size();
  if (after > kMostBytes) {
    client.out += answer(wire::kFull);
    return;
  }
  bytes_ = after;
  const std::string& kept = values_[key] = std::move(value);
  client.out += answer(wire::kStored);
  for (Client& other : clients_) {
    if (other.awaited != key) continue;
    other.awaited.clear();
    other.out += answer(wire::kFound, kept);
  }
}

// Answers those that have waited long enough, and goes on with what they have sent meanwhile.
void StoreServer::end_waits(Clock::time_point now) {
  for (Client& client : clients_) {
    if (!client.awaited.empty() && now >= client.until) {
      client.awaited.clear();
      client.out += answer(wire::kNothing);
    }
    if (client.known && client.awaited.empty()) handle(client);
  }
}

}  // namespace runtime::launch
