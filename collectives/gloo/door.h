// How the ranks of a communicator get a connection for each pair of them, whoever else connects to
// their ports.
#ifndef COLLECTIVES_GLOO_DOOR_H_
#define COLLECTIVES_GLOO_DOOR_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "device.h"
#include "socket.h"

namespace collectives::gloo {

using Deadline = std::chrono::steady_clock::time_point;

// What a rank publishes for its peers, through a store that strangers cannot read.
struct Invitation {
  int32_t size = 0;  // of the communicator
  uint32_t address_bytes = 0;
  sockaddr_storage address{};
  std::array<uint8_t, 16> secret{};
};

// A port that is open from the constructor until the end of meet() or of the object.
//
// The rank with the greater number calls the other one. Each says its number and the secret
// of the other's invitation, without which a connection is closed; a call that fails is made again.
// So strangers can come, stay, say anything or reset their connections, and nothing of it reaches
// Gloo.
class Door {
 public:
  Door(const Device& device, int rank, int size);

  const Invitation& invitation() const { return invitation_; }

  struct Guests {
    std::vector<Socket> sockets;  // by rank; connected and non-blocking, none of this rank itself
    std::vector<int> missing;     // those that have not come
    std::string why;              // what the last call that failed has met; "": none has failed
  };
  // Returns when all have come, the deadline has passed, or a rank that has to be called has
  // refused for a second, because its port is closed. `invitations` by rank.
  Guests meet(const std::vector<Invitation>& invitations, Deadline deadline);

 private:
  const int rank_;
  Invitation invitation_;
  Socket listener_;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_DOOR_H_
