// Waits with poll(), so that a time limit is for all of the bytes.
#include "runtime/launch/sockets.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

namespace runtime::launch {

HostAndPort host_and_port(std::string_view address, std::string_view scheme) {
  if (address.starts_with(scheme)) address.remove_prefix(scheme.size());
  const std::size_t colon = address.rfind(':');
  if (colon == address.npos) return {};
  std::string_view host = address.substr(0, colon), digits = address.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  int port = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (host.empty() || !whole || port < 0 || port > 65535) return {};
  return {std::string(host), port};
}

void lose_connection(const std::string& doing, int error) {
  throw std::system_error(error, std::generic_category(), doing);
}

void await_socket(int socket, short events, SocketDeadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - SocketDeadline::clock::now());
  pollfd entry{.fd = socket, .events = events, .revents = 0};
  const int ready =
      ::poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30)));
  if (ready == 0) lose_connection("waiting for its answer", ETIMEDOUT);
  if (ready < 0 && errno != EINTR) lose_connection("waiting for its answer", errno);
}

// Neither waits in send(), nor raises SIGPIPE if the other side has closed the connection.
void send_all(int socket, std::string_view bytes, SocketDeadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    else if (errno == EAGAIN || errno == EINTR)
      await_socket(socket, POLLOUT, deadline);
    else
      lose_connection("sending", errno);
  }
}

std::string receive_all(int socket, std::size_t count, SocketDeadline deadline) {
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

}  // namespace runtime::launch
