// Queues calls for the thread of a communicator, which exchanges messages, and ends them on abort.
#include "communicator.h"

#include <algorithm>
#include <utility>

namespace template_communicator {

using rt::sdk::Deadline;
using rt::sdk::Error;
using rt::sdk::format;
using namespace std::chrono_literals;

void Call::finish(std::optional<Error> error) {
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  finished_ = true;
  done_.notify_all();
}

bool Call::wait(Clock::time_point limit) {
  std::unique_lock lock(mutex_);
  if (!done_.wait_until(lock, limit, [&] { return finished_; })) return false;
  if (error_) throw Error(*error_);
  return true;
}

void Work::wait(Deadline deadline) {
  if (call_->wait(deadline)) return;
  throw Error(RT_ERROR_TIMEOUT, "not all ranks came to the collective in time");
}

Communicator::Communicator(const rt_host& host, const std::string& name, const Place& place)
    : transport_(host, name, place.rank), place_(place), thread_([this] { work(); }) {}

Communicator::~Communicator() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  queued_.notify_all();
  thread_.join();
}

void Communicator::meet(Deadline deadline) {
  transport_.send("meet", "here", 4);
  std::string missing;
  for (int32_t rank = 0; rank < place_.size; ++rank) {
    const auto left = std::max<std::chrono::nanoseconds>(deadline - Clock::now(), 0ns);
    if (transport_.receive(rank, "meet", 4, left)) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (missing.empty()) return;
  throw Error(RT_ERROR_TIMEOUT, "these ranks did not join in time: " + missing,
              RT_SCOPE_COMMUNICATOR);
}

std::optional<Error> Communicator::failure() const {
  if (!aborted_) return std::nullopt;
  return Error(RT_ERROR_ABORTED, "the communicator was aborted", RT_SCOPE_COMMUNICATOR);
}

void Communicator::expect_alive() const {
  if (const auto error = failure()) throw Error(*error);
}

// The same on all ranks that take part.
std::string Communicator::label_of(const rt_collective& call) {
  if (!rt::sdk::is_transfer(call.kind)) return std::to_string(collectives_++);
  const int32_t from = call.kind == RT_SEND ? place_.rank : call.peer,
                to = call.kind == RT_SEND ? call.peer : place_.rank;
  const std::string pair = format("%dto%d", from, to);
  return pair + "." + std::to_string(messages_[pair + (call.kind == RT_SEND ? "s" : "r")]++);
}

std::shared_ptr<Call> Communicator::start(const rt_collective& given) {
  check(given, place_);
  expect_alive();
  auto call = std::make_shared<Call>(given, label_of(given));
  const size_t bytes = sent_bytes(given, place_, place_.rank);
  if (bytes > 0) transport_.send(call->label, given.kind == RT_BARRIER ? "b" : given.send, bytes);
  const std::lock_guard lock(mutex_);
  queue_.push_back(call);
  queued_.notify_all();
  return call;
}

void Communicator::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    queued_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::shared_ptr<Call> call = queue_.front();
    queue_.pop_front();
    lock.unlock();
    try {
      run(*call);
      call->finish(std::nullopt);
    } catch (const Error& error) {
      call->finish(error);
    } catch (const std::exception& error) {
      call->finish(Error(RT_ERROR_INTERNAL, error.what(), RT_SCOPE_COMMUNICATOR));
    }
  }
}

// Receives what this rank needs. It waits in short pieces, so that abort() ends the wait.
void Communicator::run(const Call& call) {
  std::vector<Bytes> messages;
  for (const int32_t rank : senders(call.collective, place_)) {
    const size_t bytes = sent_bytes(call.collective, place_, rank);
    std::optional<Bytes> message;
    if (bytes == 0) message.emplace();
    while (!message) {
      expect_alive();
      message = transport_.receive(rank, call.label, bytes, 20ms);
    }
    messages.push_back(std::move(*message));
  }
  combine(call.collective, place_, messages);
}

std::unique_ptr<Communicator> Communicator::split(int32_t color, int32_t key, Deadline deadline) {
  const auto size = static_cast<size_t>(place_.size);
  const int32_t mine[2] = {color, key};
  std::vector<int32_t> all(2 * size);
  rt_collective gather{};
  gather.kind = RT_ALL_GATHER;
  gather.dtype = RT_INT32;
  gather.send = mine;
  gather.receive = all.data();
  gather.count = 2;
  const auto call = start(gather);
  if (!call->wait(deadline)) {
    abort();  // the others may still come, and `all` goes with this function
    try {
      call->wait(Clock::time_point::max());
    } catch (const Error&) {  // it was aborted
    }
    throw Error(RT_ERROR_TIMEOUT, "not all ranks came to the split", RT_SCOPE_COMMUNICATOR);
  }
  const uint64_t number = splits_++;
  if (color < 0) return nullptr;
  Place place{0, 0};
  for (size_t rank = 0; rank < size; ++rank) {
    if (all[2 * rank] != color) continue;
    ++place.size;
    const auto other = std::pair(all[2 * rank + 1], static_cast<int32_t>(rank));
    if (other < std::pair(key, place_.rank)) ++place.rank;
  }
  const std::string name = format("%s/split%llu/%d", transport_.name().c_str(),
                                  static_cast<unsigned long long>(number), color);
  return std::make_unique<Communicator>(transport_.host(), name, place);
}

}  // namespace template_communicator
