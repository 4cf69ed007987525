// Collectives among the ranks of one machine through memory that they share.
#ifndef COLLECTIVES_SHARED_MEMORY_HOST_COLLECTIVES_H_
#define COLLECTIVES_SHARED_MEMORY_HOST_COLLECTIVES_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/shared_memory/combine.h"
#include "collectives/shared_memory/segment.h"
#include "rt/communicator.h"

namespace collectives::shared_memory {

using Deadline = std::chrono::steady_clock::time_point;

// The error of a call that another rank has made with other arguments.
struct Disagreement : std::runtime_error {
  Disagreement(int p, const std::string& what) : std::runtime_error(what), peer(p) {}
  int peer;
};

// The error of a call that a rank has not made before it left.
struct Missing : std::runtime_error {
  Missing() : std::runtime_error("a rank has left") {}
};

// The exception that waits throw after interrupt().
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "the wait was interrupted"; }
};

// A range of elements of a vector.
struct Range {
  std::size_t begin = 0;
  std::size_t count = 0;
};

// Splits a vector into one range for each of `parts` ranks; their lengths differ by at most one.
std::vector<Range> equal_parts(std::size_t count, std::size_t parts);

// The ranks of one machine do this together: a whole collective, or one step of a collective of
// several machines.
struct HostCall {
  enum class Kind {
    kReduceWhole,     // every rank computes the whole result from the vectors of all
    kReduce,          // every rank computes its part
    kShare,           // every rank has its part of the result, and gets the others
    kReduceAndShare,  // both
  };
  Kind kind = Kind::kReduceWhole;
  int32_t collective = 0;      // RT_ALL_REDUCE ...: what the ranks have called
  rt_dtype dtype = 0;          // of what is sent
  int32_t reduction = 0;       // compared between ranks, as are the others; 0: kShare
  uint64_t count = 0;          // elements of the whole vector
  const void* send = nullptr;  // the whole vector; kShare: this rank's part
  void* result = nullptr;      // the whole vector; kReduce: this rank's part
  Combine combine = nullptr;
  std::size_t result_bytes = 0;   // kReduce: of one element of the result
  std::vector<Range> parts = {};  // by rank of the machine; kReduceWhole: none
};

// Each rank copies its vector, in chunks, into slots of its own in the segment. A small vector is
// then read whole by every rank, which computes the whole result: one meeting, and a rank whose
// vector is in the slots need not come again for the others to end. Of a large vector each rank
// computes its part, writes it into its slot, and reads the other parts from theirs: two meetings,
// but each rank reads twice the vector, however many they are. One rank computes each element, or
// all do in the order of ranks, so that all ranks hold the same bits. The ranks tell each other by
// counters in the segment, and sleep on a futex in it.
//
// Thread-safe. Nothing but start(), wait() and drive() carries anything out; each of them does what
// can be done for all operations that have started. All ranks start the same operations in the
// same order, and they end in this order. start(), wait() and drive() throw Disagreement, Missing
// or Interrupted.
class HostCollectives {
 public:
  struct Operation;  // one call

  static std::size_t segment_bytes(int ranks);
  // `segment` is the same for all ranks; see segment_bytes(). It must be 0 when the first rank
  // joins.
  HostCollectives(Segment segment, int rank, int ranks);
  HostCollectives(const HostCollectives&) = delete;
  HostCollectives& operator=(const HostCollectives&) = delete;

  // Whether it knows collectives of this kind.
  static bool knows(int32_t collective);
  // Whether calls like this are carried out here, where all ranks are on one machine: all-reduce,
  // reduce-scatter and all-gather of host memory, which have passed the checks of the plugin.
  bool takes(const rt_collective& call) const;
  // Begins a collective that takes() accepts. Copies the vector as far as slots are free; never
  // waits.
  std::shared_ptr<Operation> start(const rt_collective& call);
  std::shared_ptr<Operation> start(HostCall call);
  // Whether the other ranks need nothing more of this rank. If they do, they wait for this rank's
  // wait() or drive().
  bool is_sent(const Operation& operation);

  // Returns whether the operation is over, and waits for it until the deadline; Deadline::min()
  // means not to wait. Polls for a while before it sleeps, because the caller has nothing else to
  // do.
  bool wait(const Operation& operation, Deadline deadline);
  // Waits without a deadline, for a thread in the background, which leaves the core to others at
  // once.
  void drive(const Operation& operation);

  // Tells that a rank makes no more calls: operations that it has not come to throw Missing.
  void leave(int rank);
  // Makes all calls, present and future, throw Interrupted. Afterwards nothing touches a caller's
  // memory. To be called after any of the other errors, too. Blocks while another thread copies or
  // adds what can be copied and added.
  void interrupt();

 private:
  struct Rank;
  struct Slot;

  Rank& at(int rank) const;
  Slot& slot(int rank, uint64_t chunk) const;
  std::byte* memory(int rank, uint64_t chunk) const;
  const Operation* operation_of(uint64_t chunk) const;
  bool carry_out(const Operation& operation, Deadline deadline, Deadline polls_until);
  void advance();
  bool copy_next();
  bool add_next();
  bool read_next();
  void copy(const Operation& operation, uint64_t chunk) const;
  void add(const Operation& operation, uint64_t chunk);
  void read(const Operation& operation, uint64_t chunk);
  bool all_have(std::atomic<uint64_t> Rank::*counter, uint64_t chunk) const;
  void tell(std::atomic<uint64_t> Rank::*counter, uint64_t chunk) const;
  void compare(const Operation& operation, uint64_t chunk) const;
  void ring(Rank& rank) const;
  void sleep(uint32_t seen, Deadline deadline);
  void check() const;

  const Segment segment_;
  const int rank_, ranks_;
  std::mutex mutex_;  // guards the members below
  std::deque<std::shared_ptr<Operation>> open_;
  uint64_t begun_ = 0;  // chunks of all operations so far
  // Chunks that this rank has copied into its slots, of which it has added its part, and of which
  // it has the result.
  uint64_t written_ = 0, added_ = 0, read_ = 0;
  std::vector<bool> left_;  // by rank
  bool interrupted_ = false;
  std::vector<const void*> sources_;
};

}  // namespace collectives::shared_memory

#endif  // COLLECTIVES_SHARED_MEMORY_HOST_COLLECTIVES_H_
