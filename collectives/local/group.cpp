// Matches the calls of ranks in meetings, and lets ranks that wait carry out chunks.
#include "collectives/local/group.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <thread>
#include <utility>

#include "collectives/local/call.h"
#include "collectives/local/chunks.h"
#include "rt/sdk/error.h"

namespace collectives::local {
namespace {

using rt::sdk::Error;
using rt::sdk::is_transfer;
using Clock = std::chrono::steady_clock;

// About twice the time that it takes to sleep and be woken. With less, two ranks that call at the
// same pace keep sending each other to sleep (and may be woken on the same core); with more, a
// waiting rank takes the core from a rank that computes.
constexpr auto kSpin = std::chrono::microseconds(20);
// If a collective has at most this many chunks, the last rank to arrive carries out all of them at
// once, which is faster than waking another rank.
constexpr uint64_t kFewChunks = 2;
constexpr uint64_t kNoMoreChunks = uint64_t{1} << 62;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

State state_of(const Meeting& meeting) { return meeting.state.load(std::memory_order_acquire); }

bool is_pending(State state) { return state == State::kGathering || state == State::kReady; }

bool spin_until_not(const Meeting& meeting, State seen) {
  const auto end = Clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (state_of(meeting) != seen) return true;
      pause();
    }
  } while (Clock::now() < end);
  return false;
}

constexpr const char* kAborted = "local: the communicator was aborted";

// Waits for the chunks that other threads had begun when the meeting was stopped, because their
// buffers may be freed once the failure is known.
void settle(const Meeting& meeting) {
  while (meeting.finished.load(std::memory_order_acquire) < meeting.claimed) {
    std::this_thread::yield();
  }
}

// Stops a meeting that is not over; returns false if it is. Chunks that are already claimed will
// still be carried out.
bool stop(Meeting& meeting, rt_status status, const std::string& message) {
  const State state = state_of(meeting);
  if (!is_pending(state)) return false;
  const uint64_t claimed = meeting.next.exchange(kNoMoreChunks, std::memory_order_relaxed);
  meeting.claimed = std::min(claimed, meeting.chunks);
  if (state == State::kReady && meeting.claimed == meeting.chunks) return false;  // all are claimed
  meeting.status = status;
  meeting.message = message;
  meeting.state.store(State::kFailed, std::memory_order_release);
  return true;
}

// Stops the meeting because the call of the rank at `place` does not agree with the first call.
void fail_disagreeing(Meeting& meeting, std::size_t place) {
  stop(meeting, RT_ERROR_INVALID_ARGUMENT,
       rt::sdk::format("local: the ranks disagree: rank %d calls %s, rank %d calls %s; all ranks "
                       "must make the same calls in the same order",
                       meeting.ranks[meeting.first], describe(meeting.calls[meeting.first]).c_str(),
                       meeting.ranks[place], describe(meeting.calls[place]).c_str()));
}

// Returns whether `state` means that the meeting is completed; throws the error of a failed
// meeting.
bool is_over(const Meeting& meeting, State state) {
  if (state != State::kFailed) return state == State::kDone;
  settle(meeting);
  throw Error(meeting.status, meeting.message, RT_SCOPE_COMMUNICATOR);
}

// The ranks that have not arrived, as "1, 2".
std::string missing(const Meeting& meeting) {
  std::string ranks;
  for (std::size_t place = 0; place < meeting.ranks.size(); ++place) {
    if (meeting.arrived[place]) continue;
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(meeting.ranks[place]);
  }
  return ranks;
}

}  // namespace

Group::Group(int32_t size)
    : size_(size),
      left_(static_cast<std::size_t>(size)),
      numbers_(static_cast<std::size_t>(size)),
      pairs_(static_cast<std::size_t>(size) * static_cast<std::size_t>(size)),
      all_ranks_(static_cast<std::size_t>(size)) {
  std::iota(all_ranks_.begin(), all_ranks_.end(), 0);
}

Work& Group::enter(int32_t rank, const rt_collective& call) {
  const std::size_t place =
      is_transfer(call.kind) ? call.kind == RT_RECEIVE : static_cast<std::size_t>(rank);
  std::unique_lock lock(mutex_);
  if (aborted_) throw Error(RT_ERROR_ABORTED, kAborted, RT_SCOPE_COMMUNICATOR);
  Meeting& meeting = find_meeting(rank, call, place);
  arrive(meeting, place, call);
  const State state = state_of(meeting);
  const bool few = state == State::kReady && meeting.chunks <= kFewChunks;
  lock.unlock();
  if (few) {
    carry_out(meeting);
  } else if (state != State::kGathering) {
    changed_.notify_all();
  }
  return meeting.works[place];
}

// Returns the meeting that the call belongs to.
Meeting& Group::find_meeting(int32_t rank, const rt_collective& call, std::size_t place) {
  if (!is_transfer(call.kind)) {
    const uint64_t index = numbers_[static_cast<std::size_t>(rank)]++ - first_open_;
    if (index == open_.size()) open_.push_back(&take_spare(all_ranks_));
    return *open_[index];
  }
  const int32_t source = place == 0 ? rank : call.peer, destination = place == 0 ? call.peer : rank;
  Queue& queue = pairs_[static_cast<std::size_t>(source * size_ + destination)];
  if (!queue.empty() && !queue.front()->arrived[place]) return *queue.front();
  queue.push_back(&take_spare(std::array{source, destination}));
  return *queue.back();
}

void Group::arrive(Meeting& meeting, std::size_t place, const rt_collective& call) {
  if (meeting.arrivals == 0) meeting.first = place;
  meeting.calls[place] = call;
  meeting.arrived[place] = true;
  ++meeting.arrivals;
  ++meeting.users;
  if (!agree(meeting.calls[meeting.first], call)) fail_disagreeing(meeting, place);
  for (const int32_t rank : meeting.ranks) {
    if (left_[static_cast<std::size_t>(rank)]) lose(meeting, rank);
  }
  if (!meeting.complete()) return;
  if (is_transfer(call.kind)) {
    Queue& queue = pairs_[static_cast<std::size_t>(meeting.ranks[0] * size_ + meeting.ranks[1])];
    queue.erase(queue.begin());
  } else {  // ranks arrive in order, so the first open meeting is completed first
    open_.erase(open_.begin());
    ++first_open_;
  }
  if (state_of(meeting) == State::kGathering) begin(meeting);
}

Meeting& Group::take_spare(std::span<const int32_t> ranks) {
  if (spare_.empty()) {
    meetings_.push_back(std::make_unique<Meeting>());
    spare_.push_back(meetings_.back().get());
  }
  Meeting& meeting = *spare_.back();
  spare_.pop_back();
  meeting.state.store(State::kGathering, std::memory_order_relaxed);
  meeting.ranks.assign(ranks.begin(), ranks.end());
  meeting.calls.resize(ranks.size());
  meeting.arrived.assign(ranks.size(), false);
  meeting.works.resize(ranks.size());
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    meeting.works[place] = {this, &meeting, place};
  }
  meeting.arrivals = meeting.users = 0;
  meeting.chunks = meeting.claimed = 0;
  meeting.next.store(0, std::memory_order_relaxed);
  meeting.finished.store(0, std::memory_order_relaxed);
  return meeting;
}

void Group::begin(Meeting& meeting) {
  if (meeting.calls[0].kind == kSplit) split(meeting);
  meeting.chunks = chunk_count(meeting.calls);
  meeting.state.store(meeting.chunks > 0 ? State::kReady : State::kDone, std::memory_order_release);
}

// Makes the communicators of a split: one for each colour, ordered by key, then by rank.
void Group::split(Meeting& meeting) {
  std::map<int32_t, std::vector<std::pair<int32_t, std::size_t>>> members;
  for (std::size_t place = 0; place < meeting.calls.size(); ++place) {
    const rt_collective& call = meeting.calls[place];
    if (call.reduction >= 0) members[call.reduction].emplace_back(call.peer, place);
  }
  meeting.splits.assign(meeting.calls.size(), {});
  for (auto& [color, order] : members) {
    std::sort(order.begin(), order.end());
    const auto group = std::make_shared<Group>(static_cast<int32_t>(order.size()));
    for (std::size_t i = 0; i < order.size(); ++i) {
      meeting.splits[order[i].second] = {group, static_cast<int32_t>(i)};
    }
  }
}

void Group::carry_out(Meeting& meeting) {
  for (;;) {
    const uint64_t chunk = meeting.next.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= meeting.chunks) return;
    run_chunk(meeting.calls, chunk);
    if (meeting.finished.fetch_add(1, std::memory_order_acq_rel) + 1 < meeting.chunks) continue;
    {
      const std::lock_guard lock(mutex_);
      meeting.state.store(State::kDone, std::memory_order_release);
    }
    changed_.notify_all();
  }
}

bool Group::poll(Work& work) {
  Meeting& meeting = *work.meeting;
  if (state_of(meeting) == State::kReady) carry_out(meeting);
  return is_over(meeting, state_of(meeting));
}

void Group::wait(Work& work, Deadline deadline) {
  Meeting& meeting = *work.meeting;
  for (;;) {
    const State seen = state_of(meeting);
    if (is_over(meeting, seen)) return;
    if (seen == State::kReady) carry_out(meeting);
    if (spin_until_not(meeting, seen)) continue;
    std::unique_lock lock(mutex_);
    if (changed_.wait_until(lock, deadline, [&] { return state_of(meeting) != seen; })) continue;
    const std::string what = "local: " + describe(meeting.calls[work.place]);
    throw Error(RT_ERROR_TIMEOUT,
                seen == State::kReady
                    ? what + ": another rank has not finished its piece in time"
                    : what + ": these ranks have not come to it in time: " + missing(meeting));
  }
}

// The last chance to carry out a collective that its ranks free without a wait or poll.
void Group::release(Work& work) {
  Meeting& meeting = *work.meeting;
  if (state_of(meeting) == State::kReady) carry_out(meeting);
  const std::lock_guard lock(mutex_);
  if (--meeting.users == 0 && meeting.complete()) spare_.push_back(&meeting);
}

SplitResult Group::split(int32_t rank, int32_t color, int32_t key, Deadline deadline) {
  rt_collective call{};
  call.kind = kSplit;
  call.reduction = color;
  call.peer = key;
  const auto free_work = [this](Work* work) { release(*work); };
  const std::unique_ptr<Work, decltype(free_work)> work(&enter(rank, call), free_work);
  wait(*work, deadline);
  return std::move(work->meeting->splits[work->place]);
}

void Group::abort() {
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    for (const auto& meeting : meetings_) stop(*meeting, RT_ERROR_ABORTED, kAborted);
  }
  changed_.notify_all();
}

void Group::lose(Meeting& meeting, int32_t rank) {
  if (!is_pending(state_of(meeting))) return;
  const std::string message = "local: " + describe(meeting.calls[meeting.first]) +
                              " cannot be completed: rank " + std::to_string(rank) +
                              " has left the communicator";
  if (stop(meeting, RT_ERROR_COMMUNICATION, message) && lost_.empty()) lost_ = message;
}

// Once leave() returns, no thread touches the rank's buffers.
void Group::leave(int32_t rank) {
  {
    const std::lock_guard lock(mutex_);
    left_[static_cast<std::size_t>(rank)] = true;
    for (const auto& meeting : meetings_) {
      if (std::count(meeting->ranks.begin(), meeting->ranks.end(), rank) == 0) continue;
      lose(*meeting, rank);
      settle(*meeting);
    }
  }
  changed_.notify_all();
}

std::optional<Error> Group::failure() {
  const std::lock_guard lock(mutex_);
  if (aborted_) return Error(RT_ERROR_ABORTED, kAborted, RT_SCOPE_COMMUNICATOR);
  if (lost_.empty()) return std::nullopt;
  return Error(RT_ERROR_COMMUNICATION, lost_, RT_SCOPE_COMMUNICATOR);
}

bool Work::poll() { return group->poll(*this); }
void Work::wait(Deadline deadline) { group->wait(*this, deadline); }
void Work::release() { group->release(*this); }

}  // namespace collectives::local
