// One collective in progress: the calls of its ranks, and how much of it has been carried out.
#ifndef COLLECTIVES_LOCAL_MEETING_H_
#define COLLECTIVES_LOCAL_MEETING_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rt/communicator.h"

namespace collectives::local {

class Group;
struct Meeting;

// A rank's place in a meeting: what the host knows as rt_work. It is a member of the meeting, so
// that starting a collective allocates nothing. The methods are those of
// rt/sdk/communicator_table.h; group.h says what they do.
struct Work {
  bool poll();
  void wait(std::chrono::steady_clock::time_point deadline);
  void release();

  Group* group = nullptr;
  Meeting* meeting = nullptr;
  std::size_t place = 0;
};

// A new communicator and the rank in it; empty for a rank with a negative colour.
struct SplitResult {
  std::shared_ptr<Group> group;
  int32_t rank = 0;
};

enum class State { kGathering, kReady, kDone, kFailed };

// A meeting lives from the first rank's call until the last rank has freed its work; then it is
// used again. All members but the atomic ones are guarded by the group's mutex. The members that
// are needed to carry it out do not change once `state` is kReady; `status` and `message` do not
// change once it is kFailed.
struct Meeting {
  std::atomic<State> state{State::kGathering};
  std::vector<int32_t> ranks;        // by place: all ranks, or the sender and the receiver
  std::vector<rt_collective> calls;  // by place
  std::vector<bool> arrived;         // by place
  std::vector<Work> works;           // by place
  std::vector<SplitResult> splits;   // by place: the result of a split
  std::size_t arrivals = 0;
  std::size_t first = 0;  // place of the first rank that arrived
  std::size_t users = 0;  // number of ranks that have arrived and not freed their work
  rt_status status = RT_OK;
  std::string message;
  uint64_t chunks = 0;
  std::atomic<uint64_t> next{0};      // first chunk that no thread has claimed
  std::atomic<uint64_t> finished{0};  // number of finished chunks
  uint64_t claimed = 0;  // if the collective has failed: chunks that threads had claimed before

  bool complete() const { return arrivals == ranks.size(); }
};

}  // namespace collectives::local

#endif  // COLLECTIVES_LOCAL_MEETING_H_
