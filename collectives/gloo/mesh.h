// How the ranks of a communicator find each other: invitations through the host's key-value store,
// then one TCP connection for each pair of ranks.
#ifndef COLLECTIVES_GLOO_MESH_H_
#define COLLECTIVES_GLOO_MESH_H_

#include <gloo/context.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "device.h"
#include "door.h"
#include "rt/plugin.h"
#include "wires.h"

namespace collectives::gloo {

Deadline deadline_in(int64_t timeout_ns);

// Who joins what.
struct Membership {
  int rank = 0;
  int size = 1;
  std::string prefix;  // of the keys, unique to the communicator
};

// Gloo's context over Wires. Not rendezvous::Context of Gloo, whose deadline counts for each step
// and five times.
class Mesh : public ::gloo::Context {
 public:
  // Returns when all ranks are connected and have said so. Throws rt::sdk::Error, RT_ERROR_TIMEOUT
  // once the deadline has passed, naming the ranks that are missing.
  Mesh(const rt_host& host, const Membership& membership, const Device& device, Deadline deadline);

  Wires& wires() { return *wires_; }
  const Device& device() const { return place_; }

  // Memory for the collective that runs, kept for the next: fresh pages cost as much as sending
  // them.
  char* scratch(std::size_t bytes);

  // A rank that leaves says why, as its last word (never 0). 0: `rank` has said nothing yet.
  int32_t last_word(int rank);
  // Waits until one more rank has said its last word. Throws what Wires throws, also when a rank is
  // lost.
  void wait_last_word();
  // Says it to all, and closes the connections once they have heard it, or 200 ms later.
  void leave(int32_t last_word);

 private:
  void greet(const Membership& membership, Deadline deadline);

  const Device place_;
  std::shared_ptr<Wires> wires_;
  std::unique_ptr<char[]> scratch_;
  std::size_t scratch_bytes_ = 0;
  std::vector<int32_t> last_words_;  // by rank; written by Gloo's thread
  std::unique_ptr<::gloo::transport::UnboundBuffer> farewells_, heard_;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_MESH_H_
