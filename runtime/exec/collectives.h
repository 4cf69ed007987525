// The collectives of a rank: those that a program's nodes ask for, and a few on host memory.
#ifndef RUNTIME_EXEC_COLLECTIVES_H_
#define RUNTIME_EXEC_COLLECTIVES_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/host/communicator.h"
#include "runtime/exec/watchdog.h"
#include "runtime/graph/graph.h"

namespace runtime::exec {

// One collective of a program. When the communicator cannot read the device's memory, what is sent
// and received goes through pinned host memory of its own.
struct CollectiveCall {
  std::string name;  // "bucket 0"
  int communicator = 0;
  rt_collective collective{};  // with the addresses of the device's buffers
  uint64_t send_bytes = 0, receive_bytes = 0;
  // Staging; empty where it is not needed.
  plugins::host::Memory send_copy, receive_copy;
  std::optional<plugins::host::Event> computed, copied;
  // While it is under way.
  plugins::host::Work work;
  uint64_t sequence = 0;
  bool queued = false;  // waits for what the device still computes
};

// What the collectives of programs took.
struct CollectiveTimes {
  // For which the rank's thread started them or waited, by graph::Collective::communicator.
  std::array<double, 4> exposed_ns{};
  uint64_t bytes = 0;  // sent
  int64_t calls = 0;
};

// One rank's; one thread. Every failure is a CommunicationError that names the rank that was lost
// or is late (see watchdog.h).
class Collectives {
 public:
  // The communicators by graph::Collective::communicator (nullptr: none of its use), and that of
  // all ranks of the job (nullptr: the first one is). `check`: every call is compared across the
  // ranks before it starts. Recorder and watchdog are the rank's own and live longer.
  Collectives(std::vector<std::shared_ptr<plugins::host::Communicator>> communicators, int rank,
              int world_size, FlightRecorder& recorder, Watchdog& watchdog, bool check,
              std::shared_ptr<plugins::host::Communicator> job = nullptr);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  const std::shared_ptr<plugins::host::Communicator>& communicator(int i) const {
    return communicators_.at(i);
  }
  Watchdog& watchdog() const { return watchdog_; }

  // The call of a node, without addresses yet.
  CollectiveCall prepare(const graph::Graph& graph, const graph::Node& node,
                         const std::shared_ptr<plugins::host::Device>& device) const;
  // Whether collectives on this device's memory go through the host.
  static bool staged(const plugins::host::Device& device) { return !device.host_memory(); }

  // Starts it behind what is queued on the stream; does not wait for the stream.
  void start(CollectiveCall& call, plugins::host::Stream& stream);
  // Returns when it is done, for an inline device; else what is queued on the stream from now on
  // sees its result.
  void wait(CollectiveCall& call, plugins::host::Stream& stream);
  // Starts what was queued and may start now. Cheap when there is nothing.
  void progress();
  CollectiveTimes take_times();

  // On host memory, blocking, outside of programs; over a communicator by its use, or among all
  // ranks of the job.
  static constexpr int kJob = -1;
  void run(const rt_collective& collective, int communicator = kJob);
  void all_gather(const void* send, void* receive, uint64_t bytes, int communicator = kJob);
  void all_reduce(double* values, uint64_t count, int32_t reduction, int communicator = kJob);
  void broadcast(void* data, uint64_t bytes, int root, int communicator = kJob);

  // Throws CommunicationError naming two ranks and their first different items if the lists are not
  // the same on every rank of `among` (empty: of the job). Every rank calls it, and ranks that
  // share a group name the same one.
  void compare(const std::string& what, const std::vector<std::string>& items,
               const std::vector<int>& among = {});

 private:
  void enqueue(CollectiveCall& call);
  void check_call(const CollectiveCall& call);
  void wait_for(plugins::host::Work& work, uint64_t sequence);
  template <class Function>
  void guarded(Function&& function);

  std::vector<std::shared_ptr<plugins::host::Communicator>> communicators_;
  std::shared_ptr<plugins::host::Communicator> job_;
  int rank_, world_size_;
  FlightRecorder& recorder_;
  Watchdog& watchdog_;
  bool check_;
  uint64_t checked_ = 0;               // calls that were compared so far
  std::deque<CollectiveCall*> queue_;  // in the order of their start
  std::optional<plugins::host::Stream> copies_;
  CollectiveTimes times_;
};

// "bucket 0: all_reduce (431080 float32), reduction 1, communicator 0", for messages and for
// compare().
std::string describe(const CollectiveCall& call);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_COLLECTIVES_H_
