// How the ranks of a communicator find each other: they exchange endpoints through the host's
// key-value store, then make a TCP connection between each pair of ranks.
#ifndef COLLECTIVES_GLOO_MESH_H_
#define COLLECTIVES_GLOO_MESH_H_

#include <gloo/context.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "collectives/mesh/listener.h"
#include "collectives/mesh/peer_memory.h"
#include "device.h"
#include "rt/plugin.h"
#include "transport.h"

namespace collectives::gloo {

// Appends an item to a list in a message, with ", " between two.
void append(std::string& list, const std::string& item);

// Which rank joins which communicator.
struct Membership {
  int rank = 0;
  int size = 1;
  std::string prefix;         // prefix of the keys, unique to the communicator
  bool shares_memory = true;  // whether small all-reduces may use shared memory
};

// Gloo's context over Transport. It replaces rendezvous::Context of Gloo, which applies its timeout
// to each step, and five times.
class Mesh : public ::gloo::Context {
 public:
  // Returns when all ranks are connected and have said so. Throws rt::sdk::Error; RT_ERROR_TIMEOUT,
  // with the missing ranks, once the deadline has passed.
  Mesh(const rt_host& host, const Membership& membership, const Device& device,
       mesh::Deadline deadline);

  Transport& transport() { return *transport_; }
  // The all-reduces in shared memory, if all ranks are on one machine and could open it; else
  // nullptr.
  shared_memory::AllReduces* all_reduces() { return all_reduces_.get(); }
  // Transport::interrupt(), and the same for all_reduces().
  void interrupt();
  const Device& device() const { return place_; }

  // Memory for the running collective. It is kept for the next one, because fresh pages cost as
  // much as sending them.
  char* scratch(std::size_t bytes);

  // The reason that `rank` gave when it left (its reason for leaving, never 0), or 0 if it has not
  // left.
  int32_t leave_reason(int rank);
  // Waits until one more rank has sent its reason for leaving. Throws what Transport throws, also
  // if a rank is lost.
  void wait_leave_reason();
  // Sends the reason for leaving to all ranks, and closes the connections once they have received
  // it, or after 200 ms.
  void leave(int32_t leave_reason);

 private:
  void greet(const Membership& membership, shared_memory::Segment segment, mesh::Deadline deadline);

  const Device place_;
  mesh::Token token_;  // outlives the connections, which revoke it
  std::shared_ptr<Transport> transport_;
  std::unique_ptr<shared_memory::AllReduces> all_reduces_;
  std::unique_ptr<char[]> scratch_;
  std::size_t scratch_bytes_ = 0;
  std::vector<int32_t> leave_reasons_;  // by rank; written by the I/O thread
  std::unique_ptr<::gloo::transport::UnboundBuffer> notices_, acknowledgements_;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_MESH_H_
