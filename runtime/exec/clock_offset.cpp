// Bounds the offset to rank 0's clock from both sides by the times of many exchanges.
#include "runtime/exec/clock_offset.h"

#include <algorithm>
#include <vector>

namespace runtime::exec {

namespace {

constexpr int kRounds = 32;

// What a rank sends: when it sends, and when it had received everything of the round before.
struct Times {
  int64_t sent = 0, received = 0;
};

}  // namespace

ClockOffset measure_clock_offset(Collectives* collectives, int64_t (*now)()) {
  if (collectives == nullptr || collectives->world_size() == 1) return {};
  std::vector<Times> all(collectives->world_size());
  Times own, before;
  int64_t most = INT64_MAX, least = INT64_MIN;
  for (int round = 0; round < kRounds; ++round) {
    before = own;
    own.sent = now();
    collectives->all_gather(&own, all.data(), sizeof(own));
    // Rank 0 received the last round after this rank had sent its part of it.
    if (round > 0) least = std::max(least, before.sent - all[0].received);
    own.received = now();
    most = std::min(most, own.received - all[0].sent);
  }
  if (collectives->rank() == 0) return {};
  // Ranks of one machine have one clock.
  const bool same = least <= 0 && most >= 0;
  return {same ? 0 : least + (most - least) / 2,
          same ? std::max(-least, most) : (most - least) / 2};
}

}  // namespace runtime::exec
