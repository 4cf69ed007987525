// What the stores behind a TCP connection share: addresses, and bytes within a deadline.
#ifndef RUNTIME_LAUNCH_SOCKETS_H_
#define RUNTIME_LAUNCH_SOCKETS_H_

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace runtime::launch {

using SocketDeadline = std::chrono::steady_clock::time_point;

struct HostAndPort {
  std::string host;
  int port = -1;  // -1: the address has another form
};
// Reads "host:port", "[address]:port" or the same behind `scheme`; a port may be 0.
HostAndPort host_and_port(std::string_view address, std::string_view scheme);

// Throws std::system_error: the connection is lost, and a new one may succeed.
[[noreturn]] void lose_connection(const std::string& doing, int error);
// Waits until the socket is ready for `events` of poll(). The functions lose the connection if that
// fails, or with ETIMEDOUT at the deadline.
void await_socket(int socket, short events, SocketDeadline deadline);
void send_all(int socket, std::string_view bytes, SocketDeadline deadline);
std::string receive_all(int socket, std::size_t count, SocketDeadline deadline);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_SOCKETS_H_
