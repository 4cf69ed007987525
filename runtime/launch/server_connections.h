// Connections to the process that serves a store over TCP.
#ifndef RUNTIME_LAUNCH_SERVER_CONNECTIONS_H_
#define RUNTIME_LAUNCH_SERVER_CONNECTIONS_H_

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/host/descriptor.h"
#include "runtime/launch/sockets.h"
#include "runtime/watch/bell.h"

namespace runtime::launch {

// Each thread that asks has a connection of its own, so that one that waits for a key does not hold
// up the others. All functions are thread-safe. They throw CommunicationError that begins with
// Server::name and ends with a remedy.
class ServerConnections {
 public:
  struct Server {
    std::string name;                // "the store of rank 0 at 10.0.0.1:29500"
    std::vector<std::string> hosts;  // names or addresses; the first that answers is used
    std::string port;
    // Says to the server what a new connection has to say first, and reads its answer. Throws
    // std::exception if another attempt may succeed, and CommunicationError with a remedy if none
    // can.
    std::function<void(int socket, SocketDeadline deadline)> hello;
    std::string absent, gone;  // remedies, if it never came and if it does not answer any more
    std::chrono::nanoseconds answer = std::chrono::seconds(5);  // the time for each request
  };
  explicit ServerConnections(Server server) : server_(std::move(server)) {}

  // Makes the first connection. The server may start later, or its name be known later.
  void open(SocketDeadline deadline);
  // Calls `talk`, which may throw std::system_error, with a connection and the time by which it has
  // to be done: `wait` and Server::answer from now. A connection that was used before may have been
  // lost; `talk` is then called once more with a new one.
  void use(std::chrono::milliseconds wait,
           const std::function<void(int socket, SocketDeadline deadline)>& talk);
  // Sends `request` over a connection, which the server answers once a key is set, or after long.
  // `receive` reads the answer; if it returns false, the key is not set, and `request` is sent
  // again.
  std::unique_ptr<watch::Bell> bell(const std::string& request,
                                    std::function<bool(int socket, SocketDeadline)> receive);
  [[noreturn]] void fail(const std::string& what, const std::string& remedy) const;
  const Server& server() const { return server_; }

 private:
  class AnswerBell;
  plugins::host::Descriptor take();
  plugins::host::Descriptor dial(const std::string& host, SocketDeadline deadline) const;
  plugins::host::Descriptor greet(const std::string& host, SocketDeadline deadline) const;
  plugins::host::Descriptor connect(SocketDeadline deadline, const std::string& remedy,
                                    std::string& answered) const;

  Server server_;  // not changed after open()
  std::mutex mutex_;
  std::vector<plugins::host::Descriptor> idle_;  // that no thread uses now
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_SERVER_CONNECTIONS_H_
