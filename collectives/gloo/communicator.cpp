// Runs calls on lanes, watches for ranks that leave or are lost, and ends what waits for them.
#include "communicator.h"

#include <gloo/common/error.h>

#include <algorithm>

#include "algorithms.h"
#include "collectives/mesh/blocked_signals.h"
#include "rt/sdk/ranks.h"

namespace collectives::gloo {
namespace {

using rt::sdk::format;
using rt::sdk::has_peer;
using rt::sdk::is_transfer;
using shared_memory::bytes_of;
using shared_memory::combine_of;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kTransferSlot = uint64_t{0x43} << 56;

// The reason for leaving that a rank sends when it leaves. A rank that gives up because it lost
// rank k sends kLost + k, or kMissed - k if rank k had left before, so that all ranks name the same
// rank.
constexpr int32_t kLeaves = 1, kGaveUp = 2, kLost = 3, kMissed = -1;

// A call that has taken this long asks the other ranks how far they are.
constexpr std::chrono::milliseconds kPatience{700};

}  // namespace

Communicator::Communicator(const rt_host& host, const Membership& membership,
                           std::vector<int> names, const Device& device, mesh::Deadline deadline)
    : host_(host),
      membership_(membership),
      names_(std::move(names)),
      mesh_(std::make_shared<Mesh>(
          host, membership, names_[static_cast<std::size_t>(membership.rank)], device, deadline)),
      liveness_(mesh_->transport(), mesh_->rank, mesh_->size),
      last_word_(kLeaves) {
  if (mesh_->size == 1) return;
  const mesh::BlockedSignals inherited;
  watcher_ = std::thread(&Communicator::watch, this);
}

Communicator::~Communicator() {
  if (unfinished_ > 0) abort();
  mesh_->interrupt();
  if (watcher_.joinable()) watcher_.join();
  lanes_.clear();
}

// Sleeps in Mesh::wait_leave_reason(). Ends when this rank leaves or when all other ranks have
// left.
void Communicator::watch() {
  try {
    for (int others = mesh_->size - 1; others > 0; --others) {
      mesh_->wait_leave_reason();
      for (int rank = 0; rank < mesh_->size; ++rank) {
        const int32_t reason = mesh_->leave_reason(rank);
        if (reason != 0 && reason != kLeaves) fail_lost("");
        if (reason == kLeaves) mesh_->has_left(rank);
      }
    }
  } catch (const std::exception&) {
    fail_because();
  }
  std::unique_lock lock(failure_mutex_);
  const int32_t leave_reason = last_word_;
  lock.unlock();
  mesh_->leave(leave_reason);
}

// Sets the failure also after another one: the other ranks may have been faster to abort.
void Communicator::abort() {
  std::string text = "the communicator was aborted";
  const std::lock_guard lock(failure_mutex_);
  if (failure_) text += std::string(", after: ") + failure_->what();
  if (!failure_) last_word_ = kGaveUp;
  if (!failure_ || failure_->code() != RT_ERROR_ABORTED) {
    failure_ = Error(RT_ERROR_ABORTED, text, RT_SCOPE_COMMUNICATOR);
  }
  mesh_->interrupt();
}

std::optional<Error> Communicator::failure() {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

// Interrupts with the lock held: whoever sees the failure may free memory that calls under way use.
void Communicator::fail(Error error, int32_t leave_reason) {
  const std::lock_guard lock(failure_mutex_);
  if (failure_) return;
  failure_ = std::move(error);
  last_word_ = leave_reason;
  mesh_->interrupt();
}

// Fails with the exception that is being handled. Interrupted means that the communicator has
// failed already.
void Communicator::fail_because() {
  try {
    throw;
  } catch (const Interrupted&) {
  } catch (const Disagreement& e) {
    fail_disagreeing(e.peer, e.what());
  } catch (const shared_memory::Disagreement& e) {
    fail_disagreeing(mesh_->hosts().mine()[static_cast<std::size_t>(e.peer)], e.what());
  } catch (const shared_memory::Missing& e) {
    fail_lost(e.what());
  } catch (const ::gloo::IoException& e) {
    fail_lost(e.what());
  } catch (const std::exception& e) {
    fail(Error(RT_ERROR_INTERNAL, who() + e.what(), RT_SCOPE_COMMUNICATOR), kGaveUp);
  }
}

std::string Communicator::who() const {
  return format("rank %s of communicator '%s': ", name(mesh_->rank).c_str(),
                membership_.prefix.c_str());
}

void Communicator::fail_disagreeing(int peer, const std::string& what) {
  fail(Error(RT_ERROR_COMMUNICATION, who() + "rank " + name(peer) + " " + what,
             RT_SCOPE_COMMUNICATOR),
       kGaveUp);
}

void Communicator::fail_lost(const std::string& why) {
  if (failure()) return;  // then this rank closed the connections itself
  int32_t leave_reason = kGaveUp;
  const Error error = describe_loss(why, leave_reason);
  fail(error, leave_reason);
}

Error Communicator::describe_loss(const std::string& why, int32_t& leave_reason) {
  std::string gave_up, left;
  std::vector<int> lost;
  for (int rank = 0; rank < mesh_->size; ++rank) {
    if (rank == mesh_->rank) continue;
    // Asked before the reason for leaving, which arrives before the connection closes.
    const bool is_lost = mesh_->transport().is_lost(rank);
    const int32_t reason = mesh_->leave_reason(rank);
    const int32_t culprit = reason >= kLost ? reason - kLost : kMissed - reason;
    if ((reason >= kLost || reason < 0) && culprit < mesh_->size) {
      leave_reason = reason;
      lost.clear();
      if (reason >= kLost)
        lost.push_back(names_[static_cast<std::size_t>(culprit)]);
      else
        left = name(culprit);
      break;
    }
    if (reason == kGaveUp) append(gave_up, name(rank));
    if ((!is_lost && reason != kLeaves) || reason == kGaveUp) continue;
    if (reason == kLeaves)
      append(left, name(rank));
    else
      lost.push_back(names_[static_cast<std::size_t>(rank)]);
    leave_reason = reason == kLeaves ? kMissed - rank : kLost + rank;
  }
  std::string text = who();
  if (!lost.empty()) {
    text += "lost " + rt::sdk::rank_list(lost) + "; see its output for how it ended";
    if (!why.empty()) text += " (" + why + ")";
  } else if (!gave_up.empty()) {
    text += "rank " + gave_up + " gave up; see its output for why";
  } else {
    text += "rank " + left + " has left the communicator already";
  }
  Error error(RT_ERROR_COMMUNICATION, text, RT_SCOPE_COMMUNICATOR);
  if (!lost.empty()) error.native(RT_DOMAIN_LOST_RANK, lost[0]);
  return error;
}

void Communicator::check(const rt_collective& call) {
  if (call.kind < RT_ALL_REDUCE || call.kind > RT_BARRIER) {
    throw Error(RT_ERROR_UNSUPPORTED, format("collective %d; expected 1 to 9", call.kind));
  }
  if (call.kind == RT_BARRIER) return;
  bytes_of(call.dtype);
  if (rt::sdk::reduces(call.kind)) combine_of(call.dtype, call.reduction);
  if (has_peer(call.kind) && (call.peer < 0 || call.peer >= mesh_->size ||
                              (is_transfer(call.kind) && call.peer == mesh_->rank))) {
    throw Error(RT_ERROR_INVALID_ARGUMENT, format("collective %d with peer %d on rank %d of %d",
                                                  call.kind, call.peer, mesh_->rank, mesh_->size));
  }
  if (call.stream != nullptr || call.memory_kind != RT_MEMORY_PINNED_HOST) {
    throw Error(
        RT_ERROR_UNSUPPORTED,
        format("memory of kind %d%s; this plugin reads host memory only (kind %d, no stream)",
               call.memory_kind, call.stream != nullptr ? " on a stream" : "",
               RT_MEMORY_PINNED_HOST));
  }
}

Work* Communicator::enqueue(const rt_collective& call) { return new Work(*this, start(call)); }

std::shared_ptr<Completion> Communicator::start(const rt_collective& call) {
  check(call);
  if (const auto error = failure()) throw *error;
  if (is_transfer(call.kind)) return transfer(call);
  const bool shared = mesh_->hosts().is_one() && mesh_->host_collectives() != nullptr &&
                      mesh_->host_collectives()->takes(call);
  liveness_.count_call(shared ||
                       (mesh_->hosts_share() && shared_memory::HostCollectives::knows(call.kind)));
  if (shared) return on_host(call);
  auto completion = std::make_shared<Completion>();
  ++unfinished_;
  lane(-1, 0).enqueue(
      [this, completion, call] { run(*completion, [&] { carry_out(mesh_, call); }); });
  return completion;
}

std::shared_ptr<Completion> Communicator::on_host(const rt_collective& call) {
  auto completion = std::make_shared<Completion>();
  shared_memory::HostCollectives& shared = *mesh_->host_collectives();
  try {
    completion->shares(shared.start(call));
    ++unfinished_;
    if (!shared.is_sent(*completion->shared())) drive(completion);
  } catch (const std::exception&) {
    fail_because();
    throw *failure();
  }
  return completion;
}

// Lets the lane carry out a collective in shared memory.
void Communicator::drive(const std::shared_ptr<Completion>& completion) {
  lane(-1, 0).enqueue([this, completion] {
    run(*completion, [&] { mesh_->host_collectives()->drive(*completion->shared()); });
  });
}

void Communicator::release(const std::shared_ptr<Completion>& completion) {
  if (completion->shared() != nullptr && !completion->is_done()) drive(completion);
}

// Waits for the completion; carries out a collective in shared memory.
bool Communicator::wait_until(Completion& completion, mesh::Deadline deadline) {
  if (completion.shared() != nullptr && !completion.is_done() &&
      mesh_->host_collectives()->is_sent(*completion.shared())) {
    std::optional<Error> error;
    try {
      shared_memory::HostCollectives& shared = *mesh_->host_collectives();
      if (!shared.wait(*completion.shared(), deadline)) return false;
    } catch (const std::exception&) {
      fail_because();
      error = failure();
    }
    completion.finish(std::move(error), unfinished_);
  }
  return completion.wait(deadline);
}

void Communicator::wait(Completion& completion, mesh::Deadline deadline) {
  const mesh::Deadline asks = completion.begun() + kPatience;
  do {
    if (wait_until(completion, std::min(deadline, std::max(asks, liveness_.next())))) return;
    if (Clock::now() >= asks) liveness_.go_on();
    if (const auto peer = liveness_.disagrees()) {
      fail_disagreeing(*peer,
                       "has called as many collectives as this rank, but not the same ones; the "
                       "ranks disagree on the order, the type or the count of their calls");
      throw *failure();
    }
  } while (Clock::now() < deadline);
  std::string late = Clock::now() >= asks ? liveness_.late(names_) : "";
  const auto silent = late.empty() ? std::nullopt : liveness_.silent();
  if (late.empty()) late = "not all ranks have come, or the connection is slow";
  const std::chrono::duration<double> age = Clock::now() - completion.begun();
  Error error(RT_ERROR_TIMEOUT,
              who() + format("not complete after %.3g s: %s", age.count(), late.c_str()));
  if (silent) error.native(RT_DOMAIN_SILENT_RANK, names_[static_cast<std::size_t>(*silent)]);
  throw error;
}

// All transfers with the same peer and direction use one slot, so that they match and complete in
// order.
std::shared_ptr<Completion> Communicator::transfer(const rt_collective& call) {
  const bool sends = call.kind == RT_SEND;
  void* memory = sends ? const_cast<void*>(call.send) : call.receive;
  auto completion = std::make_shared<Completion>();
  auto buffer = std::make_shared<std::unique_ptr<::gloo::transport::UnboundBuffer>>(
      mesh_->createUnboundBuffer(memory, call.count * bytes_of(call.dtype)));
  try {
    sends ? (*buffer)->send(call.peer, kTransferSlot) : (*buffer)->recv(call.peer, kTransferSlot);
  } catch (const std::exception&) {
    fail_because();
    throw *failure();
  }
  ++unfinished_;
  lane(call.peer, call.kind).enqueue([this, completion, buffer, sends] {
    run(*completion, [&] {
      const auto owned = std::move(*buffer);  // freed before the caller may free its memory
      sends ? owned->waitSend() : owned->waitRecv();
    });
  });
  return completion;
}

Lane& Communicator::lane(int peer, int kind) {
  auto& lane = lanes_[{peer, kind}];
  if (!lane) lane = std::make_unique<Lane>();
  return *lane;
}

void Communicator::run(Completion& completion, const Lane::Task& body) {
  std::optional<Error> error;
  try {
    body();
  } catch (const std::exception&) {
    fail_because();
    error = failure();
  }
  completion.finish(std::move(error), unfinished_);
}

std::unique_ptr<Communicator> Communicator::split(int32_t color, int32_t key,
                                                  mesh::Deadline deadline) {
  using Place = std::array<int32_t, 2>;  // (colour, key)
  const Place mine{color, key};
  std::vector<Place> all(static_cast<std::size_t>(mesh_->size));
  rt_collective call{};
  call.kind = RT_ALL_GATHER;
  call.dtype = RT_INT32;
  call.send = mine.data();
  call.receive = all.data();
  call.count = 2;
  call.memory_kind = RT_MEMORY_PINNED_HOST;
  const auto gathered = start(call);
  if (!wait_until(*gathered, deadline)) {
    fail(Error(RT_ERROR_TIMEOUT, "not all ranks came to the split", RT_SCOPE_COMMUNICATOR),
         kGaveUp);
    wait_until(*gathered, mesh::Deadline::max());  // throws once no thread writes to `all` any more
  }
  const int number = splits_++;
  if (color < 0) return nullptr;
  std::vector<std::pair<int32_t, int>> members;  // (key, rank)
  for (int rank = 0; rank < mesh_->size; ++rank) {
    const Place& place = all[static_cast<std::size_t>(rank)];
    if (place[0] == color) members.emplace_back(place[1], rank);
  }
  std::sort(members.begin(), members.end());
  Membership membership;
  membership.shares_memory = membership_.shares_memory;
  membership.ranks_per_host = membership_.ranks_per_host;
  membership.size = static_cast<int>(members.size());
  membership.prefix =
      membership_.prefix + "/split" + std::to_string(number) + "/" + std::to_string(color);
  std::vector<int> names;
  for (const auto& [k, rank] : members) {
    if (rank == mesh_->rank) membership.rank = static_cast<int>(names.size());
    names.push_back(names_[static_cast<std::size_t>(rank)]);
  }
  return std::make_unique<Communicator>(host_, membership, std::move(names), mesh_->device(),
                                        deadline);
}

Work::~Work() {
  try {
    communicator_.release(completion_);
  } catch (
      const std::exception&) {  // no thread can be started: destroying the communicator ends it
  }
}

}  // namespace collectives::gloo
