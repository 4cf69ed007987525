// The thread that sends and receives messages, naps while there are none, and ends with its peers.
#include "runtime/exec/messenger.h"

#include <algorithm>
#include <string>

#include "runtime/error.h"
#include "runtime/exec/communicator_errors.h"

namespace runtime::exec {

namespace {

using plugins::host::make_collective;
using std::chrono::microseconds;

constexpr int64_t kClose = -1;  // kind of the last message
// The first and the longest sleep of the idle thread. Waking every 250 us takes some 2% of a core,
// and 250 us are some 2% of a step that takes 10 ms.
constexpr microseconds kShortNap{30}, kLongNap{250};

}  // namespace

Messenger::Messenger(std::shared_ptr<plugins::host::Communicator> communicator, int rank,
                     int world_size, uint64_t largest_payload, watch::Watchdog& watchdog,
                     Receiver receiver)
    : communicator_(std::move(communicator)),
      rank_(rank),
      largest_payload_(largest_payload),
      watchdog_(watchdog),
      receiver_(std::move(receiver)),
      incoming_(world_size) {
  incoming_[rank].closed = true;
  thread_ = std::thread([this] { run(); });
}

Messenger::~Messenger() {
  bool orderly = false;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    orderly = over_ && failure_ == nullptr;
  }
  wake_.notify_all();
  thread_.join();
  if (!orderly) abort(*communicator_);
}

void Messenger::send(int to, Message message) {
  const std::lock_guard lock(mutex_);
  outbox_.emplace_back(to, std::move(message));
  wake_.notify_all();
}

void Messenger::check() {
  const std::lock_guard lock(mutex_);
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

void Messenger::close() {
  for (int to = 0; to < static_cast<int>(incoming_.size()); ++to) {
    if (to != rank_) send(to, {.kind = kClose});
  }
  std::unique_lock lock(mutex_);
  closing_ = true;
  while (!ended_.wait_for(lock, watch::Watchdog::kSlice, [this] { return over_; }))
    watchdog_.check();
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

void Messenger::run() {
  std::exception_ptr failure;
  try {
    for (int from = 0; from < static_cast<int>(incoming_.size()); ++from) {
      if (from != rank_) receive(from, &incoming_[from].header, sizeof(Header));
    }
    microseconds nap = kShortNap;
    while (!finished()) {
      if (progress()) {
        nap = kShortNap;
        continue;
      }
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, nap, [this] { return stop_ || !outbox_.empty(); });
      nap = std::min(2 * nap, kLongNap);
    }
  } catch (const std::exception& error) {
    watchdog_.tell(error);
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  failure_ = failure;
  over_ = true;
  ended_.notify_all();
}

bool Messenger::finished() {
  const std::lock_guard lock(mutex_);
  if (stop_) return true;
  return closing_ && outbox_.empty() && outgoing_.empty() &&
         std::all_of(incoming_.begin(), incoming_.end(), [](auto& i) { return i.closed; });
}

// Sends, receives and passes on messages; returns whether there was anything to do. A
// communicator's error becomes the cause that all ranks determine together.
bool Messenger::progress() {
  bool moved = start_sends();
  moved |= poll_sends();
  for (int from = 0; from < static_cast<int>(incoming_.size()); ++from) moved |= poll(from);
  return moved;
}

bool Messenger::start_sends() {
  std::vector<std::pair<int, Message>> messages;
  {
    const std::lock_guard lock(mutex_);
    messages.swap(outbox_);
  }
  for (auto& [to, message] : messages) {
    if (to == rank_) {
      receiver_(rank_, std::move(message));
      continue;
    }
    Outgoing& out = outgoing_.emplace_back();
    out.header = {message.kind, message.number, message.count, message.value,
                  message.payload.size()};
    out.payload = std::move(message.payload);
    const auto start = [&, peer = to](const void* data, uint64_t bytes) {
      rt_collective c = make_collective(RT_SEND, RT_UINT8, data, nullptr, bytes);
      c.peer = peer;
      return communicator_->enqueue(c);
    };
    guarded(watchdog_, [&] {
      out.works[0] = start(&out.header, sizeof(Header));
      if (!out.payload.empty()) out.works[1] = start(out.payload.data(), out.payload.size());
    });
  }
  return !messages.empty();
}

bool Messenger::poll_sends() {
  const auto done = [](plugins::host::Work& work) { return !work || work.poll(); };
  return guarded(watchdog_, [&] {
    return std::erase_if(outgoing_,
                         [&](Outgoing& o) { return done(o.works[0]) && done(o.works[1]); }) > 0;
  });
}

void Messenger::receive(int from, void* data, uint64_t bytes) {
  rt_collective c = make_collective(RT_RECEIVE, RT_UINT8, nullptr, data, bytes);
  c.peer = from;
  incoming_[from].work = guarded(watchdog_, [&] { return communicator_->enqueue(c); });
}

bool Messenger::poll(int from) {
  Incoming& in = incoming_[from];
  if (in.closed || !guarded(watchdog_, [&] { return in.work.poll(); })) return false;
  if (!in.in_payload && in.header.bytes > 0) {
    if (in.header.bytes > largest_payload_) {
      throw CommunicationError(watchdog_.options().names.of(from) + " sent a message of " +
                               std::to_string(in.header.bytes) + " bytes, expected at most " +
                               std::to_string(largest_payload_) +
                               "; start all ranks with the same configuration and program");
    }
    in.payload.resize(in.header.bytes);
    in.in_payload = true;
    receive(from, in.payload.data(), in.payload.size());
    return true;
  }
  in.in_payload = false;
  Message message{in.header.kind, in.header.number, in.header.count, in.header.value,
                  std::exchange(in.payload, {})};
  in.closed = message.kind == kClose;
  if (in.closed) {
    in.work = {};
    return true;
  }
  receive(from, &in.header, sizeof(Header));
  receiver_(from, std::move(message));
  return true;
}

}  // namespace runtime::exec
