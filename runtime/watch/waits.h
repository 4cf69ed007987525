// Finds out for whom the ranks of a job wait that has come to a standstill.
#ifndef RUNTIME_WATCH_WAITS_H_
#define RUNTIME_WATCH_WAITS_H_

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/watch/flight_recorder.h"

namespace runtime::watch {

// What is known about how far each rank is. A rank of which nothing is known has no entry.
using ChannelsOfRanks = std::map<int, std::vector<ChannelState>>;

// A call in which a rank waits, and the ranks of its communicator that have not begun that call.
struct Wait {
  int rank = 0;
  CollectiveRecord call;
  std::vector<int> absent;
};

// What the waits of the ranks end in.
struct Standstill {
  // The ranks that others wait for and that wait for nobody, and of the waits for them the one that
  // began first.
  std::optional<Wait> for_stuck;
  std::vector<int> stuck;
  // Otherwise a call that all of its ranks have begun, and that does not end.
  std::optional<Wait> hanging;
  // Otherwise ranks of which each waits for the next one, and the last for the first.
  std::vector<Wait> circle;
};

class Waits {
 public:
  // Both must outlive this object.
  Waits(const ChannelsOfRanks& channels, const Groups& groups, int world_size)
      : channels_(channels), groups_(groups), world_size_(world_size) {}

  // The oldest call in which the thread of `rank` waits; nullopt: it waits in none.
  std::optional<Wait> of(int rank) const;
  // Follows the waits of `late`, and of the ranks for which these wait, to their end.
  Standstill follow(const std::vector<int>& late) const;
  // The state of `rank` in the channel in which a call of `other` meets those of `rank`; nullopt:
  // nothing is known of `rank`.
  std::optional<ChannelState> met_by(int rank, const CollectiveRecord& call, int other) const;
  // A call that `wait` meets under the same number, and that is another one; with the rank that
  // has begun it.
  std::optional<std::pair<int, CollectiveRecord>> differs(const Wait& wait) const;
  // The ranks that `call` of `rank` needs, `rank` included.
  std::vector<int> partners(const CollectiveRecord& call, int rank) const;

 private:
  std::vector<int> members(uint64_t communicator, int rank) const;

  const ChannelsOfRanks& channels_;
  const Groups& groups_;
  const int world_size_;
};

}  // namespace runtime::watch

#endif  // RUNTIME_WATCH_WAITS_H_
