// Matches the calls of ranks that are threads, and combines their data when all have come.
#include "hub.h"

#include <algorithm>

#include "rt/sdk/error.h"

namespace fake {
namespace {

bool is_pair(const rt_collective& call) { return call.kind == RT_SEND || call.kind == RT_RECEIVE; }

// A send and its receive differ in kind and name each other as peer; all other calls must be equal.
bool agree(const rt_collective& a, const rt_collective& b) {
  const bool same_data = a.dtype == b.dtype && a.count == b.count;
  if (is_pair(a)) return same_data && is_pair(b);
  return same_data && a.kind == b.kind && a.reduction == b.reduction && a.peer == b.peer;
}

std::string describe(const rt_collective& call) {
  return rt::sdk::format("collective %d of %llu elements, dtype %d, reduction %d, peer %d",
                         call.kind, static_cast<unsigned long long>(call.count), call.dtype,
                         call.reduction, call.peer);
}

void finish(Meeting& meeting) {
  meeting.done = true;
  const rt_collective& first = meeting.calls[0];
  for (const rt_collective& call : meeting.calls) {
    if (agree(first, call)) continue;
    meeting.status = RT_ERROR_INVALID_ARGUMENT;
    meeting.message = "the ranks disagree: " + describe(first) + " and " + describe(call);
    return;
  }
  try {
    carry_out(meeting.calls);
  } catch (const rt::sdk::Error& error) {
    meeting.status = error.code();
    meeting.message = error.what();
  }
}

}  // namespace

Hub::Key Hub::key_of(int32_t rank, const rt_collective& call) {
  int32_t source = -1, destination = -1;
  if (call.kind == RT_SEND) source = rank, destination = call.peer;
  if (call.kind == RT_RECEIVE) source = call.peer, destination = rank;
  return {source, destination, numbers_[{rank, source, destination}]++};
}

std::shared_ptr<Meeting> Hub::enter(int32_t rank, const rt_collective& call) {
  const std::lock_guard lock(mutex_);
  if (aborted_) throw rt::sdk::Error(RT_ERROR_ABORTED, "the communicator was aborted");
  const Key key = key_of(rank, call);
  std::shared_ptr<Meeting>& entry = open_[key];
  if (!entry) {
    entry = std::make_shared<Meeting>();
    const auto places = static_cast<std::size_t>(is_pair(call) ? 2 : world_size_);
    entry->calls.resize(places);
    entry->arrived.resize(places);
  }
  const std::shared_ptr<Meeting> meeting = entry;
  const int32_t place = is_pair(call) ? (call.kind == RT_SEND ? 0 : 1) : rank;
  meeting->calls[static_cast<std::size_t>(place)] = call;
  meeting->arrived[static_cast<std::size_t>(place)] = true;
  if (std::all_of(meeting->arrived.begin(), meeting->arrived.end(), [](bool b) { return b; })) {
    open_.erase(key);
    finish(*meeting);
    changed_.notify_all();
  }
  return meeting;
}

bool Hub::wait(const std::shared_ptr<Meeting>& meeting, Deadline deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [&] { return meeting->done || aborted_; });
  if (!meeting->done && aborted_) {
    throw rt::sdk::Error(RT_ERROR_ABORTED, "the communicator was aborted", RT_SCOPE_COMMUNICATOR);
  }
  if (meeting->done && meeting->status != RT_OK) {
    throw rt::sdk::Error(meeting->status, meeting->message, RT_SCOPE_COMMUNICATOR);
  }
  return meeting->done;
}

void Hub::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  open_.clear();  // the plugin may not touch the buffers of an aborted call any more
  changed_.notify_all();
}

bool Hub::aborted() {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

std::shared_ptr<Hub> find_hub(const std::string& name, int32_t world_size) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Hub>> hubs;
  const std::lock_guard lock(mutex);
  std::erase_if(hubs, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<Hub> hub = hubs[name].lock();
  if (!hub) {
    hub = std::make_shared<Hub>(name, world_size);
    hubs[name] = hub;
  }
  if (hub->world_size() != world_size) {
    throw rt::sdk::Error(
        RT_ERROR_INVALID_ARGUMENT,
        rt::sdk::format("communicator '%s' has %d ranks for others, %d for this one", name.c_str(),
                        hub->world_size(), world_size));
  }
  return hub;
}

}  // namespace fake
