// The store that torchrun keeps for the processes that it starts.
#ifndef RUNTIME_LAUNCH_TORCH_STORE_H_
#define RUNTIME_LAUNCH_TORCH_STORE_H_

#include <chrono>
#include <string>

#include "runtime/launch/server_connections.h"
#include "runtime/launch/store.h"

namespace runtime::launch {

// A client of a torch.distributed.TCPStore, of PyTorch 2.4 or newer, in which an agent of torchrun
// serves at MASTER_ADDR and MASTER_PORT. It outlives the ranks, and knows no secret. Throws as
// Store does. Source: the messages that torch.distributed.TCPStore exchanges
// (torch/csrc/distributed/c10d/TCPStoreBackend.hpp). Equivalent to:
// torch.distributed.TCPStore(is_master=False).
class TorchStore : public Store {
 public:
  // `address`: "host:port". The agent must listen within `come`, and answer each request within
  // `answer`. Throws ConfigurationError for another form of address.
  explicit TorchStore(const std::string& address,
                      std::chrono::nanoseconds come = std::chrono::seconds(60),
                      std::chrono::nanoseconds answer = std::chrono::seconds(5));

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> try_get(const std::string& key) override;
  std::optional<std::string> wait_for(const std::string& key,
                                      std::chrono::nanoseconds at_most) override;
  std::unique_ptr<watch::Bell> bell(const std::string& key) override;
  std::string description() const override { return connections_.server().name; }

 private:
  ServerConnections connections_;
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_TORCH_STORE_H_
