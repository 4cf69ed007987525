// How the ranks of a communicator find each other: they exchange endpoints through the host's
// key-value store, then make a TCP connection between each pair of ranks.
#ifndef COLLECTIVES_GLOO_MESH_H_
#define COLLECTIVES_GLOO_MESH_H_

#include <gloo/context.h>

#include <chrono>
#include <memory>
#include <optional>
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
  bool shares_memory = true;  // whether ranks of one machine may use shared memory
  int ranks_per_host = 0;     // 0: as it is; else machines are made up for an experiment
};

// On which machines the ranks of a communicator are. All ranks have the same list.
struct Hosts {
  std::vector<std::vector<int>> ranks;  // of each machine, in ascending order
  std::size_t own = 0, index = 0;       // this rank is ranks[own][index]
  const std::vector<int>& mine() const { return ranks[own]; }
  bool is_one() const { return ranks.size() == 1; }
};

// Gloo's context over Transport. It replaces rendezvous::Context of Gloo, which applies its timeout
// to each step, and five times.
class Mesh : public ::gloo::Context {
 public:
  // Returns when all ranks are connected and have said so. Throws rt::sdk::Error; RT_ERROR_TIMEOUT,
  // with the missing ranks, once the deadline has passed. `name` is the number of this rank in the
  // communicator that was created first.
  Mesh(const rt_host& host, const Membership& membership, int name, const Device& device,
       mesh::Deadline deadline);

  Transport& transport() { return *transport_; }
  const Hosts& hosts() const { return hosts_; }
  // The ranks of this machine meet here in shared memory; nullptr if this is its only rank, or
  // unless hosts_share().
  shared_memory::HostCollectives* host_collectives() { return host_collectives_.get(); }
  // Whether the ranks of each machine share memory; all ranks have the same answer.
  bool hosts_share() const { return hosts_share_; }
  // Transport::interrupt(), and the same for host_collectives().
  void interrupt();
  // Tells host_collectives() that a rank has left.
  void has_left(int peer);
  const Device& device() const { return place_; }

  // Memory for the running collective: that of its reduction, and that between its steps. It is
  // kept for the next one, because fresh pages cost as much as sending them.
  enum Scratch { kReduction, kBetweenSteps };
  char* scratch(Scratch which, std::size_t bytes);

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
  // The ranks from which nothing has come yet: those whose byte in `heard` is 0, or just one.
  struct Missing {
    std::vector<char> heard;
    std::optional<int> only;
  };
  void join(const Membership& membership, mesh::Deadline deadline);
  void share_memory(const Membership& membership, Missing& missing, mesh::Deadline deadline);
  void tell_all(char mine, uint64_t slot, std::vector<char>& heard, mesh::Deadline deadline);

  const Device place_;
  mesh::Token token_;  // outlives the connections, which revoke it
  std::shared_ptr<Transport> transport_;
  std::unique_ptr<shared_memory::HostCollectives> host_collectives_;
  Hosts hosts_;
  bool hosts_share_ = false;
  struct {
    std::unique_ptr<char[]> memory;
    std::size_t bytes = 0;
  } scratch_[2];
  std::vector<int32_t> leave_reasons_;  // by rank; written by the I/O thread
  std::unique_ptr<::gloo::transport::UnboundBuffer> notices_, acknowledgements_;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_MESH_H_
