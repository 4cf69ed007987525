// Makes a connection between each pair of ranks of a communicator, even if others connect to their
// ports.
#ifndef COLLECTIVES_GLOO_DOOR_H_
#define COLLECTIVES_GLOO_DOOR_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/shared_memory/segment.h"
#include "device.h"
#include "peer_memory.h"
#include "socket.h"

namespace collectives::gloo {

using Deadline = std::chrono::steady_clock::time_point;

// What a rank publishes for its peers, in a store that strangers cannot read.
struct Invitation {
  int32_t size = 0;  // world size of the communicator
  uint32_t address_bytes = 0;
  sockaddr_storage address{};
  std::array<uint8_t, 16> secret{};
  MemoryCard memory{};
  shared_memory::SegmentCard segment{};  // of rank 0
};

// A port that is open from the constructor until the end of meet() or of this object.
//
// Of two ranks, the one with the greater number connects to the other. Both then send their number
// and the secret of the other's invitation; a connection on which the secret is missing is closed.
// A failed connection attempt is repeated. Strangers can therefore connect, stay, send anything or
// reset their connections without any effect on Gloo.
class Door {
 public:
  Door(const Device& device, int rank, int size);

  const Invitation& invitation() const { return invitation_; }

  // The connections that were made.
  struct Guests {
    std::vector<Socket> sockets;  // by rank; connected and non-blocking; empty for this rank itself
    std::vector<int> missing;     // ranks without a connection
    std::string why;              // why the last failed attempt failed; "" if none failed
  };
  // Returns when all ranks are connected, when the deadline has passed, or when a rank to which
  // this rank connects has refused all connections for one second, because its port is closed.
  // `invitations` is indexed by rank.
  Guests meet(const std::vector<Invitation>& invitations, Deadline deadline);

 private:
  const int rank_;
  Invitation invitation_;
  Socket listener_;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_DOOR_H_
