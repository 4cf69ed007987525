// A communicator as its ranks share it: they publish their calls, and whoever waits or polls
// carries out what all have published, piece by piece. There is no thread of its own.
#ifndef COLLECTIVES_LOCAL_GROUP_H_
#define COLLECTIVES_LOCAL_GROUP_H_

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "collectives/local/meeting.h"

namespace collectives::local {

using Deadline = std::chrono::steady_clock::time_point;

// Thread-safe. Lives as long as a communicator of it; works are freed before their communicator.
// Functions throw rt::sdk::Error.
class Group {
 public:
  explicit Group(int32_t size);
  int32_t size() const { return size_; }

  // Publishes a checked call; does not wait. Ranks meet by the number of the call, send and receive
  // by their number between the two ranks.
  rt_work& enter(int32_t rank, const rt_collective& call);
  // True once completed; throws how it failed.
  bool poll(rt_work& work);
  // RT_ERROR_TIMEOUT, naming who is missing, when the deadline has passed.
  void wait(rt_work& work, Deadline deadline);
  void release(rt_work& work);

  Seat split(int32_t rank, int32_t color, int32_t key, Deadline deadline);
  void abort();
  void leave(int32_t rank);  // it will not come to any further meeting
  // An abort, or a rank that left while others wait for it.
  void throw_if_broken();

 private:
  using Queue = std::vector<Meeting*>;
  Meeting& find_meeting(int32_t rank, const rt_collective& call, std::size_t place);
  void arrive(Meeting& meeting, std::size_t place, const rt_collective& call);
  Meeting& take_spare(std::span<const int32_t> ranks);
  void begin(Meeting& meeting);
  void seat(Meeting& meeting);
  void carry_out(Meeting& meeting);
  void lose(Meeting& meeting, int32_t rank);

  const int32_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;  // the state of a meeting
  bool aborted_ = false;
  std::string lost_;               // what could not be completed because a rank had left
  std::vector<bool> left_;         // by rank
  std::vector<uint64_t> numbers_;  // by rank: of its next collective
  uint64_t first_open_ = 0;        // number of open_.front()
  Queue open_;                     // collectives to which not all have come
  std::vector<Queue> pairs_;       // by source * size + destination: all wait for the same side
  std::vector<int32_t> all_ranks_;
  std::vector<std::unique_ptr<Meeting>> meetings_;
  std::vector<Meeting*> spare_;
};

}  // namespace collectives::local

#endif  // COLLECTIVES_LOCAL_GROUP_H_
