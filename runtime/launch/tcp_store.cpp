// Connects to rank 0, says hello, and exchanges requests and answers with deadlines.
#include "runtime/launch/tcp_store.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "plugins/host/text.h"
#include "runtime/launch/sockets.h"
#include "runtime/launch/store_messages.h"

namespace runtime::launch {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kGone =
    "rank 0, which keeps it, has ended or cannot be reached: see its output";
constexpr const char* kAbsent =
    "see that rank 0 runs on that host with the same rendezvous, and that no firewall closes the "
    "port; raise comm.init_timeout_s if it starts later";
// A rank that waits for a key asks again after this, so that it notices when rank 0 is gone.
constexpr auto kLongestWait = 1000ms;
// A connection that was lost is made again within this.
constexpr auto kAgain = 500ms;

std::string receive_all(int socket, std::size_t count, Clock::time_point deadline) {
  std::string bytes(count, '\0');
  for (std::size_t done = 0; done < count;) {
    const ssize_t got = ::recv(socket, bytes.data() + done, count - done, 0);
    if (got > 0)
      done += static_cast<std::size_t>(got);
    else if (got < 0 && (errno == EAGAIN || errno == EINTR))
      await_socket(socket, POLLIN, deadline);
    else
      lose_connection("receiving", got == 0 ? ECONNRESET : errno);
  }
  return bytes;
}

}  // namespace

TcpStore::TcpStore(Options options) : options_(std::move(options)) {
  const HostAndPort read = host_and_port(options_.address, "tcp://");
  host_ = read.host;
  port_ = std::to_string(read.port);
  if (read.port < (options_.leads ? 0 : 1)) {
    throw ConfigurationError("comm.rendezvous_address: got '" + options_.address +
                             "', expected tcp://host:port with the host of rank 0 and a free port "
                             "there, e.g. tcp://10.0.0.1:29500");
  }
  if (options_.secret.size() > wire::kMostSecret)
    throw ConfigurationError("the secret of the job (RUNTIME_SECRET, RUNTIME_SECRET_FILE) has " +
                             std::to_string(options_.secret.size()) + " bytes, expected at most " +
                             std::to_string(wire::kMostSecret));
  if (options_.leads) {
    server_ = std::make_unique<StoreServer>(host_, read.port, options_.secret);
    port_ = std::to_string(server_->port());
  }
  // Rank 0 may start later, or its name be known later.
  idle_.push_back(connect(Clock::now() + options_.come, kAbsent));
}

std::string TcpStore::description() const {
  return "the store of rank 0 at " + host_ + ":" + port_;
}

void TcpStore::fail(const std::string& what, const std::string& remedy) const {
  throw CommunicationError(description() + ": " + what + "; " + remedy);
}

// Makes one attempt at each address of the host.
plugins::host::Descriptor TcpStore::dial(Deadline deadline) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const std::string& host = server_ ? server_->own_host() : host_;
  if (const int code = ::getaddrinfo(host.c_str(), port_.c_str(), &hints, &list); code != 0)
    throw std::runtime_error(::gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  int error = ECONNREFUSED;
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    plugins::host::Descriptor socket(
        ::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) continue;
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    socklen_t bytes = sizeof error;
    if (::connect(socket.get(), a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS) {
      error = errno;
      continue;
    }
    try {
      await_socket(socket.get(), POLLOUT, std::min(deadline, Clock::now() + 3s));
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    } catch (const std::system_error& silent) {
      error = silent.code().value();  // another address may answer
    }
    if (error == 0) return socket;
  }
  lose_connection("connecting", error);
}

plugins::host::Descriptor TcpStore::connect(Deadline deadline, const char* remedy) {
  for (std::string why;;) {
    char reply = 0;
    try {
      plugins::host::Descriptor socket = dial(deadline);
      std::string hello(wire::kMagic);
      wire::add_number(hello, options_.secret.size());
      const auto until = std::min(deadline, Clock::now() + options_.answer);
      send_all(socket.get(), hello + options_.secret, until);
      reply = receive_all(socket.get(), 1, until)[0];
      if (reply == wire::kWelcome) return socket;
      why = "what listens there is no store of this program";
    } catch (const std::exception& error) {
      why = error.what();
    }
    if (reply == wire::kWrongSecret)
      fail("it refused the secret of this rank",
           "give all ranks the same RUNTIME_SECRET, or the same file in RUNTIME_SECRET_FILE");
    if (Clock::now() + 50ms >= deadline) fail("cannot connect: " + why, remedy);
    std::this_thread::sleep_for(50ms);
  }
}

TcpStore::Answer TcpStore::ask(char kind, std::chrono::milliseconds wait, const std::string& key,
                               const std::string& value) {
  if (key.empty() || key.size() > wire::kMostKey || value.size() > kLargestValue)
    fail("the key '" + key.substr(0, 100) + "' or its value is too long", "this is a fault");
  std::string request(1, kind);
  for (const std::size_t number :
       {static_cast<std::size_t>(wait.count()), key.size(), value.size()})
    wire::add_number(request, number);
  request += key + value;
  const Deadline deadline = Clock::now() + wait + options_.answer;
  plugins::host::Descriptor socket;
  if (const std::lock_guard lock(mutex_); !idle_.empty()) {
    socket = std::move(idle_.back());
    idle_.pop_back();
  }
  // A connection that was used before may have been lost; the request is then repeated once.
  for (bool reused = static_cast<bool>(socket);; reused = false) {
    try {
      if (!reused) socket = connect(std::min(deadline, Clock::now() + kAgain), kGone);
      send_all(socket.get(), request, deadline);
      const std::string head = receive_all(socket.get(), wire::kAnswerHead, deadline);
      const std::size_t bytes = wire::number_at(head, 1);
      if (bytes > kLargestValue) lose_connection("reading its answer", EPROTO);
      Answer answer{head[0], receive_all(socket.get(), bytes, deadline)};
      const std::lock_guard lock(mutex_);
      idle_.push_back(std::move(socket));
      return answer;
    } catch (const std::system_error& error) {
      socket.close();
      if (!reused || error.code().value() == ETIMEDOUT)
        fail(error.what() + std::string(" (limit ") +
                 plugins::host::seconds_text(wait + options_.answer) + ")",
             kGone);
    }
  }
}

void TcpStore::set(const std::string& key, const std::string& value) {
  if (ask(wire::kSet, 0ms, key, value).kind == wire::kFull)
    fail("it is full", "this is a fault: a job stores a few kilobytes for each rank");
}

std::optional<std::string> TcpStore::try_get(const std::string& key) {
  Answer answer = ask(wire::kGet, 0ms, key);
  if (answer.kind != wire::kFound) return std::nullopt;
  return std::move(answer.value);
}

std::optional<std::string> TcpStore::wait_for(const std::string& key,
                                              std::chrono::nanoseconds at_most) {
  const Deadline deadline = Clock::now() + std::min<std::chrono::nanoseconds>(at_most, 24h);
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    Answer answer = ask(wire::kGet, std::clamp(left, 0ms, kLongestWait), key);
    if (answer.kind == wire::kFound) return std::move(answer.value);
    if (left <= 0ms) return std::nullopt;
  }
}

}  // namespace runtime::launch
