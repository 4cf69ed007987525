// The collectives of a rank: those that a program's nodes ask for, and a few on host memory.
#ifndef RUNTIME_EXEC_COLLECTIVES_H_
#define RUNTIME_EXEC_COLLECTIVES_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugins/host/communicator.h"
#include "runtime/exec/comm_access.h"
#include "runtime/exec/watchdog.h"
#include "runtime/graph/graph.h"

namespace runtime::exec {

// One collective of a program.
struct CollectiveCall {
  std::string name;  // "bucket 0"
  int communicator = 0;
  rt_collective collective{};  // with the addresses of the device's buffers
  uint64_t send_bytes = 0, receive_bytes = 0;
  Access access = Access::kHost;
  plugins::host::Memory send_copy, receive_copy;  // if staged
  // None on an inline device. `copied`: its own part on the stream of copies, or on `stream`, is
  // over.
  std::optional<plugins::host::Event> computed, copied;
  // Access::kStream: where it runs, and on the program's stream what is around the wait for it.
  plugins::host::Stream* stream = nullptr;
  std::optional<plugins::host::Event> arrived, left;
  bool waited = false;  // once at least
  // While it is under way.
  plugins::host::Work work;
  uint64_t sequence = 0;
  bool queued = false;  // waits for what the device still computes
};

// What the collectives of programs took.
struct CollectiveTimes {
  // For which the rank's thread started them or waited, or the device waited for those on a stream,
  // by graph::Collective::communicator.
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
                         const std::shared_ptr<plugins::host::Device>& device);
  const CommAccess& access() const { return access_; }

  // Starts it behind what is queued on the stream; does not wait for the stream. Calls on a stream
  // run on one of their own: one for each communicator, and for sends and receives one for each
  // other rank and direction, since those must not wait for each other.
  void start(CollectiveCall& call, plugins::host::Stream& stream);
  // Returns when it is done, for an inline device; else what is queued on the stream from now on
  // sees its result.
  void wait(CollectiveCall& call, plugins::host::Stream& stream);
  // Starts what was queued and may start now. Cheap when there is nothing.
  void progress();
  CollectiveTimes take_times();

  // On host memory (`run`: or on that of the communicator's device), blocking, outside of programs;
  // over a communicator by its use, or among all ranks of the job.
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
  // A call on the device that the host has not seen to be complete.
  struct Flying {
    plugins::host::Work work;
    uint64_t sequence;
  };
  void enqueue(CollectiveCall& call);
  void start_on_stream(CollectiveCall& call);
  void wait_on_stream(CollectiveCall& call, plugins::host::Stream& stream);
  plugins::host::Stream& stream_of(const CollectiveCall& call,
                                   const std::shared_ptr<plugins::host::Device>& device);
  void look();
  void take_oldest();
  bool probe();
  void run_here(const rt_collective& collective, int communicator);
  void run_on_device(rt_collective collective, int communicator);
  uint64_t size_of(int communicator);
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
  CommAccess access_;
  // Held in every call; the watchdog's thread looks at flying_ when nobody is in one.
  std::recursive_mutex mutex_;
  std::deque<Flying> flying_;
  std::map<std::array<int, 3>, plugins::host::Stream> streams_;  // by communicator, kind, peer
  plugins::host::Memory scratch_;  // of host data where the communicator reads the device's memory
  std::map<int, uint64_t> sizes_;  // ranks, by communicator, where that was asked for
  uint64_t checked_ = 0;           // calls that were compared so far
  std::deque<CollectiveCall*> queue_;  // in the order of their start
  std::optional<plugins::host::Stream> copies_;
  CollectiveTimes times_;
};

// "bucket 0: all_reduce (431080 float32), reduction 1, communicator 0", for messages and for
// compare().
std::string describe(const CollectiveCall& call);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_COLLECTIVES_H_
