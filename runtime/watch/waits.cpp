// Follows which rank waits for which, and finds circles and calls that differ.
#include "runtime/watch/waits.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "rt/communicator.h"

namespace runtime::watch {
namespace {

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// Whether the calls cannot be the same collective, or the two ends of one message.
bool are_different(const CollectiveRecord& a, const CollectiveRecord& b) {
  const bool transfer = a.channel().direction != 0;
  return (!transfer && (a.kind != b.kind || a.reduction != b.reduction)) || a.dtype != b.dtype ||
         a.count != b.count;
}

// Each rank waits for another one of `waits`, so that the way from any of them comes back.
std::vector<Wait> circle_in(const std::map<int, Wait>& waits) {
  std::vector<int> way;
  int rank = waits.begin()->first;
  for (; !contains(way, rank); rank = waits.at(rank).absent[0]) way.push_back(rank);
  std::vector<Wait> circle;
  for (auto at = std::find(way.begin(), way.end(), rank); at != way.end(); ++at)
    circle.push_back(waits.at(*at));
  return circle;
}

}  // namespace

std::vector<int> Waits::members(uint64_t communicator, int rank) const {
  if (groups_.members) return groups_.members(communicator, rank);
  std::vector<int> all(static_cast<size_t>(world_size_));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<int> Waits::partners(const CollectiveRecord& call, int rank) const {
  const std::vector<int> all = members(call.communicator, rank);
  const Channel channel = call.channel();
  if (channel.direction == 0) return all;
  const auto peer = static_cast<size_t>(channel.peer);
  if (peer >= all.size()) return {rank};
  return {std::min(rank, all[peer]), std::max(rank, all[peer])};
}

std::optional<ChannelState> Waits::met_by(int rank, const CollectiveRecord& call, int other) const {
  const auto known = channels_.find(rank);
  if (known == channels_.end()) return std::nullopt;
  Channel channel = call.channel();
  if (channel.direction != 0 && rank != other) {
    const std::vector<int> all = members(channel.communicator, rank);
    channel.direction = channel.direction == RT_SEND ? RT_RECEIVE : RT_SEND;
    channel.peer = static_cast<int>(std::find(all.begin(), all.end(), other) - all.begin());
  }
  for (const ChannelState& state : known->second) {
    if (state.channel == channel) return state;
  }
  return ChannelState{channel};
}

std::optional<Wait> Waits::of(int rank) const {
  const auto known = channels_.find(rank);
  if (known == channels_.end()) return std::nullopt;
  std::optional<Wait> wait;
  for (const ChannelState& state : known->second) {
    const CollectiveRecord& r = state.pending;
    if (r.sequence == 0 || r.wait_ns == 0) continue;
    if (!wait || r.sequence < wait->call.sequence) wait = Wait{rank, r, {}};
  }
  if (!wait) return std::nullopt;
  for (const int partner : partners(wait->call, rank)) {
    const auto state = met_by(partner, wait->call, rank);
    if (state && state->started < wait->call.number) wait->absent.push_back(partner);
  }
  return wait;
}

Standstill Waits::follow(const std::vector<int>& late) const {
  Standstill found;
  std::map<int, Wait> waits;
  std::set<int> stuck;
  std::vector<int> next;
  for (const int rank : late) {
    if (of(rank)) next.push_back(rank);
  }
  while (!next.empty()) {
    const int rank = next.back();
    next.pop_back();
    if (waits.contains(rank)) continue;
    const auto wait = of(rank);
    if (!wait) {
      stuck.insert(rank);
      continue;
    }
    waits.emplace(rank, *wait);
    next.insert(next.end(), wait->absent.begin(), wait->absent.end());
  }
  found.stuck.assign(stuck.begin(), stuck.end());
  for (const auto& [rank, wait] : waits) {
    const bool for_stuck = std::any_of(wait.absent.begin(), wait.absent.end(),
                                       [&](int absent) { return stuck.contains(absent); });
    std::optional<Wait>& first = wait.absent.empty() ? found.hanging : found.for_stuck;
    if ((for_stuck || wait.absent.empty()) && (!first || wait.call.wait_ns < first->call.wait_ns))
      first = wait;
  }
  if (stuck.empty() && !found.hanging && !waits.empty()) found.circle = circle_in(waits);
  return found;
}

std::optional<std::pair<int, CollectiveRecord>> Waits::differs(const Wait& wait) const {
  for (const int partner : partners(wait.call, wait.rank)) {
    if (partner == wait.rank) continue;
    const auto state = met_by(partner, wait.call, wait.rank);
    if (!state || state->pending.sequence == 0 || state->pending.number != wait.call.number)
      continue;
    if (are_different(wait.call, state->pending)) return std::pair(partner, state->pending);
  }
  return std::nullopt;
}

}  // namespace runtime::watch
