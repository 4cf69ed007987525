// Makes a connection between each pair of ranks of a communicator, even if others connect to their
// ports.
#ifndef COLLECTIVES_MESH_LISTENER_H_
#define COLLECTIVES_MESH_LISTENER_H_

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/mesh/peer_memory.h"
#include "collectives/mesh/socket.h"

namespace collectives::mesh {

using Deadline = std::chrono::steady_clock::time_point;

// What a rank publishes for its peers, in a store that strangers cannot read.
struct Endpoint {
  int32_t size = 0;  // world size of the communicator
  uint32_t address_bytes = 0;
  sockaddr_storage address{};
  std::array<uint8_t, 16> secret{};
  uint64_t machine = 0;  // the same for ranks that may share memory; 0: with none
  MemoryCard memory{};
};

// A port that is open from the constructor until the end of connect() or of this object.
//
// Of two ranks, the one with the greater number connects to the other. Both then send their number
// and the secret of the other's endpoint; a connection on which the secret is missing is closed.
// A failed connection attempt is repeated. Strangers can therefore connect, stay, send anything or
// reset their connections without any effect on Gloo.
class Listener {
 public:
  // Listens on the address, whose port is 0. Throws rt::sdk::Error if the system refuses.
  Listener(const sockaddr_storage& address, socklen_t address_bytes, int rank, int size);

  const Endpoint& endpoint() const { return endpoint_; }

  // The connections that were made.
  struct Connections {
    std::vector<Socket> sockets;  // by rank; connected and non-blocking; empty for this rank itself
    std::vector<int> missing;     // ranks without a connection
    std::string why;              // why the last failed attempt failed; "" if none failed
  };
  // Returns when all ranks are connected, when the deadline has passed, or when a rank to which
  // this rank connects has refused all connections for one second, because its port is closed.
  // `endpoints` is indexed by rank.
  Connections connect(const std::vector<Endpoint>& endpoints, Deadline deadline);

 private:
  const int rank_;
  Endpoint endpoint_;
  Socket listener_;
};

}  // namespace collectives::mesh

#endif  // COLLECTIVES_MESH_LISTENER_H_
