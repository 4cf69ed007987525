// The collectives of a rank: those of a program's nodes, and a few on host memory.
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
#include "runtime/exec/span_recorder.h"
#include "runtime/graph/graph.h"
#include "runtime/watch/watchdog.h"

namespace runtime::exec {

// One collective of a program. Owned by the program; must not move while it is queued.
struct CollectiveCall {
  std::string name;     // for messages, e.g. "bucket 0"
  int micro_batch = 0;  // see graph::Collective
  int communicator = 0;
  rt_collective collective{};  // with the addresses of the device's buffers
  uint64_t send_bytes = 0, receive_bytes = 0;
  Access access = Access::kHost;
  bool in_place = true;  // whether both buffers may have the same address
  // Pinned host memory with Access::kStaged. Otherwise only `send_copy` exists, and only if the
  // buffers share memory of the graph, with which the communicator does not work in place.
  plugins::host::Memory send_copy, receive_copy;
  // Empty on an inline device. `computed`: the operands are computed. `copied`: the copies of a
  // staged call, or with Access::kStream the collective, have ended.
  std::optional<plugins::host::Event> computed, copied;
  // Only with Access::kStream: the stream of the collective, and the events on the program's stream
  // before and after the wait.
  plugins::host::Stream* stream = nullptr;
  std::optional<plugins::host::Event> arrived, left;
  bool waited = false;  // `arrived` and `left` have been recorded
  // While the collective is under way.
  plugins::host::Work work;
  uint64_t sequence = 0;
  watch::PlanPlace place = {};
  bool queued = false;     // not started yet: the device still computes its operands
  int64_t started_ns = 0;  // while it is recorded, see Collectives::record()
};

// Totals of the collectives of programs since the last take_times().
struct CollectiveTimes {
  // By graph::Collective::communicator: the time for which the rank's thread started collectives or
  // waited for them, or the device waited for those on a stream.
  std::vector<double> exposed_ns = {};
  uint64_t bytes = 0;  // sent
  int64_t calls = 0;
};

// One object for each rank, used by one thread. Every failure is a CommunicationError that names
// the rank that was lost or is late (see watchdog.h).
class Collectives {
 public:
  // `communicators`: by graph::Collective::communicator, nullptr if unused. `job`: that of all
  // ranks (nullptr: the first of the list). `check` compares every call across the ranks before it
  // starts. Recorder and watchdog belong to this rank and must outlive this object.
  Collectives(std::vector<std::shared_ptr<plugins::host::Communicator>> communicators, int rank,
              int world_size, watch::FlightRecorder& recorder, watch::Watchdog& watchdog,
              bool check, std::shared_ptr<plugins::host::Communicator> job = nullptr);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  const std::shared_ptr<plugins::host::Communicator>& communicator(int i) const {
    return communicators_.at(i);
  }
  watch::Watchdog& watchdog() const { return watchdog_; }

  // The call for a node; the program sets the addresses later. May allocate.
  CollectiveCall prepare(const graph::Graph& graph, const graph::Node& node,
                         const std::shared_ptr<plugins::host::Device>& device);
  const CommAccess& access() const { return access_; }

  // Starts a call behind what is queued on `stream`, without blocking. Calls with Access::kStream
  // run on a stream for each communicator; sends and receives on one for each peer and direction,
  // since they must not wait for each other. Equivalent to: a c10d call with async_op=True.
  void start(CollectiveCall& call, plugins::host::Stream& stream);
  // On an inline device, returns when the call is done. Otherwise work queued on `stream` from now
  // on sees its result.
  void wait(CollectiveCall& call, plugins::host::Stream& stream);
  // Starts queued calls whose operands are ready. Cheap if there are none.
  void progress();
  // To be called before calls are destroyed: forgets those that have not started, and waits for the
  // device's work on the buffers of the others.
  void release(const std::vector<CollectiveCall>& calls) noexcept;
  CollectiveTimes take_times();
  // Adds a span of each collective of programs to `spans` from now on; nullptr: no longer. The end
  // of a collective that the host waits for is noticed when the next node is launched. If the
  // communicator does not work in the background, its collectives last as long as the waits for
  // them. No collective may be under way.
  void record(SpanRecorder* spans);

  // Blocking collectives outside of programs, on host memory (run() also takes memory of the
  // communicator's device), over one communicator or among all ranks of the job.
  static constexpr int kJob = -1;
  // The flight recorder's number of a communicator: its index, or for that of all ranks the number
  // of communicators, unless it is the first of them.
  uint64_t number_of(int communicator) const;
  void run(const rt_collective& collective, int communicator = kJob);
  void all_gather(const void* send, void* receive, uint64_t bytes, int communicator = kJob);
  void all_reduce(double* values, uint64_t count, int32_t reduction, int communicator = kJob);
  void broadcast(void* data, uint64_t bytes, int root, int communicator = kJob);

  // Throws CommunicationError, which names two ranks and their first different items, unless the
  // lists are equal on every rank of `among` (empty: all). Every rank of the job calls it, and
  // ranks that share a group pass the same `among`.
  void compare(const std::string& what, const std::vector<std::string>& items,
               const std::vector<int>& among = {});

 private:
  // A call on the device whose completion the host has not seen yet.
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
  void notice_ends();
  void take_oldest();
  bool probe();
  void run_here(rt_collective collective, int communicator);
  void run_on_device(rt_collective collective, int communicator);
  uint64_t size_of(int communicator);
  void check_call(const CollectiveCall& call);
  void wait_for(plugins::host::Work& work, uint64_t sequence);

  std::vector<std::shared_ptr<plugins::host::Communicator>> communicators_;
  std::shared_ptr<plugins::host::Communicator> job_;
  int rank_, world_size_;
  watch::FlightRecorder& recorder_;
  watch::Watchdog& watchdog_;
  bool check_;
  CommAccess access_;
  // Held in every call; the watchdog's thread reads flying_ when no call runs.
  std::recursive_mutex mutex_;
  std::deque<Flying> flying_;
  std::map<std::array<int, 3>, plugins::host::Stream> streams_;  // by communicator, kind, peer
  plugins::host::Memory scratch_;      // staging for a communicator that reads device memory only
  std::map<int, uint64_t> sizes_;      // ranks of a communicator, once asked for
  uint64_t checked_ = 0;               // calls compared so far
  std::deque<CollectiveCall*> queue_;  // in start order
  std::optional<plugins::host::Stream> copies_;
  CollectiveTimes times_;
  SpanRecorder* spans_ = nullptr;
  bool ends_early_ = false;                // whether a collective can end before it is waited for
  std::vector<CollectiveCall*> recorded_;  // under way, not on a stream
};

// The call as watch::text_of() has it, for compare() and for people.
std::string describe(const CollectiveCall& call);
// Returns what a rank that runs the graphs one after the other does with its communicators, whose
// numbers are the indices in the graphs.
watch::Plan plan_of(const std::vector<const graph::Graph*>& graphs, int world_size);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_COLLECTIVES_H_
