// The store that rank 0 keeps, as the ranks see it.
#ifndef RUNTIME_LAUNCH_TCP_STORE_H_
#define RUNTIME_LAUNCH_TCP_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/launch/server_connections.h"
#include "runtime/launch/store.h"
#include "runtime/launch/store_server.h"

namespace runtime::launch {

// A store without any other service: rank 0 serves it, and every rank connects to it. Throws as
// Store does. Equivalent to: torch.distributed.TCPStore.
class TcpStore : public Store {
 public:
  struct Options {
    std::string address = {};  // "tcp://host:port" or "host:port"; of rank 0
    bool leads = false;        // this is rank 0, which serves
    std::string secret = {};   // the same for all ranks; "": none
    // Rank 0 must listen within `come`, and answer each request within `answer`.
    std::chrono::nanoseconds come = std::chrono::seconds(60);
    std::chrono::nanoseconds answer = std::chrono::seconds(5);
    std::vector<std::string> others = {};  // more hosts that may be rank 0's, with the same port
  };
  // Throws ConfigurationError for another form of address.
  explicit TcpStore(const Options& options);

  // The server for rank 0, whose options these are. Throws ConfigurationError for an address or a
  // secret of another form, and CommunicationError if it cannot listen.
  static std::unique_ptr<StoreServer> serve(const Options& options);

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> try_get(const std::string& key) override;
  std::optional<std::string> wait_for(const std::string& key,
                                      std::chrono::nanoseconds at_most) override;
  std::unique_ptr<watch::Bell> bell(const std::string& key) override;
  std::string description() const override;
  int port() const;  // at which rank 0 serves

 private:
  struct Answer {
    char kind = 0;
    std::string value;
  };

  std::string request(char kind, std::chrono::milliseconds wait, const std::string& key,
                      const std::string& value) const;
  static Answer receive(int socket, SocketDeadline deadline);
  Answer ask(char kind, std::chrono::milliseconds wait, const std::string& key,
             const std::string& value = "");

  const std::unique_ptr<StoreServer> server_;  // on rank 0
  ServerConnections connections_;
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_TCP_STORE_H_
