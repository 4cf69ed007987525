// All-reduces among the ranks of one machine through memory that they share.
#ifndef COLLECTIVES_SHARED_MEMORY_ALL_REDUCE_H_
#define COLLECTIVES_SHARED_MEMORY_ALL_REDUCE_H_

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

// Each rank copies its vector, in chunks, into slots of its own in the segment; every rank then
// reads the slots of all others and computes the whole result, in the order of ranks, so that all
// ranks hold the same bits. An all-reduce needs one meeting: a rank whose vector is in the slots
// need not come again for the others to end. The ranks tell each other by counters in the segment,
// and sleep on a futex in it.
//
// Thread-safe. Nothing but start(), wait() and drive() carries anything out; each of them does what
// can be done for all operations that have started. All ranks start the same all-reduces in the
// same order, and they end in this order. start(), wait() and drive() throw Disagreement, Missing
// or Interrupted.
class AllReduces {
 public:
  struct Operation;  // one all-reduce

  static std::size_t segment_bytes(int ranks);
  // `segment` is the same for all ranks; see segment_bytes(). It must be 0 when the first rank
  // joins.
  AllReduces(Segment segment, int rank, int ranks);
  AllReduces(const AllReduces&) = delete;
  AllReduces& operator=(const AllReduces&) = delete;

  // Whether calls like this are carried out here: small all-reduces of host memory, which have
  // passed the checks of the plugin. All ranks that make the same call get the same answer.
  bool takes(const rt_collective& call) const;
  // Begins an all-reduce that takes() accepts. Copies the vector as far as slots are free; never
  // waits.
  std::shared_ptr<Operation> start(const rt_collective& call);
  // Whether the whole vector is copied. If not, the other ranks wait for this rank's wait() or
  // drive().
  bool is_sent(const Operation& operation);

  // Returns whether the all-reduce is over, and waits for it until the deadline; Deadline::min()
  // means not to wait. Polls for a while before it sleeps, because the caller has nothing else to
  // do.
  bool wait(const Operation& operation, Deadline deadline);
  // Waits without a deadline, for a thread in the background, which leaves the core to others at
  // once.
  void drive(const Operation& operation);

  // Tells that a rank makes no more calls: all-reduces that it has not come to throw Missing.
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
  uint64_t chunk_elements(const Operation& operation) const;
  bool carry_out(const Operation& operation, Deadline deadline, Deadline polls_until);
  void advance();
  bool copy_next();
  bool add_next();
  bool all_have(std::atomic<uint64_t> Rank::*counter, uint64_t chunk) const;
  void compare(const Operation& operation, uint64_t chunk) const;
  void ring(Rank& rank) const;
  void sleep(uint32_t seen, Deadline deadline);
  void check() const;

  const Segment segment_;
  const int rank_, ranks_;
  std::mutex mutex_;  // guards the members below
  std::deque<std::shared_ptr<Operation>> open_;
  uint64_t begun_ = 0;               // chunks of all operations so far
  uint64_t written_ = 0, read_ = 0;  // chunks that this rank has copied and added
  std::vector<bool> left_;           // by rank
  bool interrupted_ = false;
  std::vector<const void*> sources_;
};

}  // namespace collectives::shared_memory

#endif  // COLLECTIVES_SHARED_MEMORY_ALL_REDUCE_H_
