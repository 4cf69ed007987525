// The store that rank 0 keeps for a job.
#ifndef RUNTIME_LAUNCH_STORE_SERVER_H_
#define RUNTIME_LAUNCH_STORE_SERVER_H_

#include <atomic>
#include <chrono>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "plugins/host/descriptor.h"

namespace runtime::launch {

// Serves the values of a TcpStore from a thread of its own. A connection is heard only after it has
// sent the secret; what is no request ends it, and nothing that strangers send disturbs the others.
// Equivalent to: the server of torch.distributed.TCPStore.
class StoreServer {
 public:
  // Listens on the port (0: any free one): on the loopback interface if `host` is written as an
  // address of it, else on all interfaces, because a name need not be an address of this machine
  // (that of a service), or not one that other machines reach. Throws CommunicationError.
  StoreServer(const std::string& host, int port, std::string secret);
  // Waits for at most `kLinger` until all ranks have ended their connections, because a rank that
  // ends a little later may still ask.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const { return port_; }
  // The host under which this process itself finds it.
  const std::string& own_host() const { return own_host_; }
  static constexpr std::chrono::seconds kLinger{10};
  // For a job that has failed: the destructor waits for a second only.
  void hurry() { linger_ = std::chrono::seconds(1); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Client {
    plugins::host::Descriptor socket;
    Clock::time_point since = Clock::now();
    bool known = false;  // it has sent the secret
    bool over = false;   // to be closed once `out` is sent
    bool lost = false;
    std::string in = {}, out = {};
    std::string awaited = {};  // the key that it waits for
    Clock::time_point until = {};
  };

  void run();
  bool go_on();
  int next_ms() const;
  void accept_all();
  void receive(Client& client);
  void send(Client& client);
  void handle(Client& client);
  bool handle_hello(Client& client);
  bool handle_request(Client& client);
  void set(Client& client, const std::string& key, std::string value);
  void end_waits(Clock::time_point now);

  const std::string secret_;
  std::string own_host_;
  int port_ = 0;
  plugins::host::Descriptor listener_, stop_, stopped_;  // a byte in stop_ ends the thread
  std::atomic<std::chrono::seconds> linger_ = kLinger;
  std::optional<Clock::time_point> end_;  // of the linger
  std::map<std::string, std::string> values_;
  std::size_t bytes_ = 0;  // of all keys and values
  std::list<Client> clients_;
  std::thread thread_;
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_STORE_SERVER_H_
