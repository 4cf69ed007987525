// The state of a communicator that its ranks share. Ranks publish their calls; a rank that waits or
// polls carries out, chunk by chunk, the collectives for which all calls are published. There is no
// background thread.
#ifndef COLLECTIVES_LOCAL_GROUP_H_
#define COLLECTIVES_LOCAL_GROUP_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/local/meeting.h"
#include "rt/sdk/communicator.h"

namespace collectives::local {

using rt::sdk::Deadline;

// Thread-safe. A Group lives as long as any communicator that uses it; started collectives
// are freed before their communicator. Functions throw rt::sdk::Error.
class Group {
 public:
  explicit Group(int32_t size);
  int32_t size() const { return size_; }

  // Publishes a call that check_call() has accepted; does not wait. A collective of one rank is
  // matched with those of the others by its number among the rank's collectives; a send and a
  // receive are matched by their number between the two ranks.
  Work& enter(int32_t rank, const rt_collective& call);
  // True once the collective has completed; throws the error of a failed one. Carries out chunks.
  bool poll(Work& work);
  // Waits, and carries out chunks. Throws RT_ERROR_TIMEOUT, with the missing ranks, when the
  // deadline has passed.
  void wait(Work& work, Deadline deadline);
  // Frees `work`; carries out its collective first if all ranks have published it.
  void release(Work& work);

  // A collective call; blocks until all ranks have come. Throws RT_ERROR_TIMEOUT.
  SplitResult split(int32_t rank, int32_t color, int32_t key, Deadline deadline);
  // Fails all pending and later calls with RT_ERROR_ABORTED.
  void abort();
  void leave(int32_t rank);  // the rank makes no further calls
  // The error if the communicator was aborted, or if a rank has left while others wait for it.
  std::optional<rt::sdk::Error> failure();

 private:
  using Queue = std::vector<Meeting*>;
  Meeting& find_meeting(int32_t rank, const rt_collective& call, std::size_t place);
  void arrive(Meeting& meeting, std::size_t place, const rt_collective& call);
  Meeting& take_spare(std::span<const int32_t> ranks);
  void begin(Meeting& meeting);
  void split(Meeting& meeting);
  void carry_out(Meeting& meeting);
  void lose(Meeting& meeting, int32_t rank);

  const int32_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;  // a collective has become ready, done or failed
  bool aborted_ = false;
  std::string lost_;               // the message about a call that failed because a rank had left
  std::vector<bool> left_;         // by rank: whether it has left
  std::vector<uint64_t> numbers_;  // by rank: the number of its next collective
  uint64_t first_open_ = 0;        // the number of open_.front()
  Queue open_;                     // collectives that some ranks have not called yet
  // By source * size + destination: unmatched calls of a pair of ranks. In one queue all are sends,
  // or all are receives.
  std::vector<Queue> pairs_;
  std::vector<int32_t> all_ranks_;
  std::vector<std::unique_ptr<Meeting>> meetings_;
  std::vector<Meeting*> spare_;
};

}  // namespace collectives::local

#endif  // COLLECTIVES_LOCAL_GROUP_H_
