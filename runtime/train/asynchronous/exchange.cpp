// Messages of asynchronous training: items, gradients, parameters, and the end.
#include "runtime/train/asynchronous/exchange.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/error.h"

namespace runtime::train {

namespace {

enum Kind : int64_t {
  kRequest,   // to rank 0; number: the limit
  kTicket,    // from rank 0; number: the work item, or -1
  kGradient,  // to an owner; value: learning rate; payload: its range of the gradient
  kRange,     // from an owner; payload: its parameters
  kWeight,    // to rank 0, before kDone; value: the weight of the step's loss
  kDone,      // to rank 0; number: the work item, count: samples, value: loss times weight
  kStop,      // to rank 0; number: the signal
};

}  // namespace

WorkExchange::WorkExchange(std::shared_ptr<plugins::host::Communicator> communicator,
                           watch::Watchdog& watchdog, Options options)
    : options_(std::move(options)),
      watchdog_(watchdog),
      ranges_(options_.world_size),
      counter_(options_.world_size, options_.max_staleness, options_.first_item),
      messenger_(std::move(communicator), options_.rank, options_.world_size, options_.owned_bytes,
                 watchdog,
                 [this](int from, exec::Message message) { receive(from, std::move(message)); }) {}

template <class Predicate>
void WorkExchange::wait(std::unique_lock<std::mutex>& lock, Predicate predicate) {
  while (!changed_.wait_for(lock, watch::Watchdog::kSlice, predicate)) {
    lock.unlock();  // the messenger's thread may need the lock to end
    messenger_.check();
    watchdog_.check();
    lock.lock();
  }
}

void WorkExchange::open(int64_t limit) {
  const std::lock_guard lock(mutex_);
  limit_ = limit;
  ++opened_;
  changed_.notify_all();
}

std::optional<int64_t> WorkExchange::next_item() {
  std::unique_lock lock(mutex_);
  wait(lock, [this] { return released_ || opened_ > ended_; });
  if (released_) return std::nullopt;
  const int64_t opened = opened_;
  ticket_.reset();
  messenger_.send(0, {.kind = kRequest, .number = limit_});
  wait(lock, [this] { return released_ || ticket_.has_value(); });
  if (ticket_.value_or(-1) >= 0) return ticket_;
  ended_ = opened;
  return std::nullopt;
}

void WorkExchange::push(ItemGradient gradient) {
  const std::lock_guard lock(mutex_);
  missing_ = options_.world_size;
  weight_ = {.kind = kWeight, .value = gradient.weight};
  done_ = {kDone, gradient.item, gradient.samples,
           gradient.weight > 0 ? gradient.loss * gradient.weight : 0};
  for (int owner = 0; owner < options_.world_size; ++owner) {
    messenger_.send(owner, {kGradient, gradient.item, 0, gradient.learning_rate,
                            std::move(gradient.ranges[owner])});
  }
}

std::vector<Bytes> WorkExchange::pull() {
  std::unique_lock lock(mutex_);
  wait(lock, [this] { return missing_ == 0; });
  return std::exchange(ranges_, std::vector<Bytes>(options_.world_size));
}

void WorkExchange::stop(int signal) { messenger_.send(0, {.kind = kStop, .number = signal}); }

void WorkExchange::drain() {
  std::unique_lock lock(mutex_);
  wait(lock, [this] { return counter_.all_applied(); });
}

void WorkExchange::pause() {
  const std::lock_guard lock(mutex_);
  paused_ = true;
  grant();
}

void WorkExchange::go_on() {
  const std::lock_guard lock(mutex_);
  paused_ = false;
}

WorkProgress WorkExchange::take_progress() {
  const std::lock_guard lock(mutex_);
  return std::exchange(progress_, {});
}

int64_t WorkExchange::taken() {
  const std::lock_guard lock(mutex_);
  return counter_.next();
}

int WorkExchange::signal() {
  const std::lock_guard lock(mutex_);
  return signal_;
}

void WorkExchange::release() {
  const std::lock_guard lock(mutex_);
  released_ = true;
  changed_.notify_all();
}

void WorkExchange::receive(int from, exec::Message message) {
  // Without the lock, so that the worker goes on while the gradient is applied.
  if (message.kind == kGradient) return receive_gradient(from, message);
  const std::lock_guard lock(mutex_);
  switch (message.kind) {
    case kRequest:
      requests_.push_back({from, message.number});
      return grant();
    case kTicket:
      ticket_ = message.number;
      return changed_.notify_all();
    case kRange:
      return receive_range(from, std::move(message.payload));
    case kWeight:
      progress_.weight += message.value;
      return;
    case kDone:
      return receive_done(message);
    case kStop:
      signal_ = static_cast<int>(message.number);
      return grant();
    default:
      throw CommunicationError(watchdog_.options().names.of(from) + " sent a message of kind " +
                               std::to_string(message.kind) +
                               ", which is unknown; start all ranks with the same program");
  }
}

void WorkExchange::receive_gradient(int from, const exec::Message& message) {
  if (message.payload.size() != options_.owned_bytes) {
    throw CommunicationError(watchdog_.options().names.of(from) + " sent a gradient of " +
                             std::to_string(message.payload.size()) + " bytes, expected " +
                             std::to_string(options_.owned_bytes) +
                             "; start all ranks with the same configuration and program");
  }
  messenger_.send(from,
                  {kRange, message.number, 0, 0, options_.apply(message.payload, message.value)});
}

void WorkExchange::receive_range(int from, Bytes range) {
  ranges_[from] = std::move(range);
  if (--missing_ > 0) return;
  messenger_.send(0, std::move(weight_));
  messenger_.send(0, std::move(done_));
  changed_.notify_all();
}

void WorkExchange::receive_done(const exec::Message& message) {
  if (!counter_.applied(message.number)) {
    throw CommunicationError("work item " + std::to_string(message.number) +
                             " was reported as applied, but no rank has taken it; start all ranks "
                             "with the same program");
  }
  ++progress_.items;
  progress_.samples += message.count;
  progress_.loss += message.value;
  grant();
  changed_.notify_all();
}

// Answers requests for work items, in order, until one has to wait. A run ends between two steps,
// so that one that goes on from there uses each sample once.
void WorkExchange::grant() {
  for (; !requests_.empty(); requests_.pop_front()) {
    const Request& request = requests_.front();
    std::optional<int64_t> item = -1;
    const bool ends = (signal_ != 0 || paused_) && counter_.at_whole_step();
    if (!ends && counter_.next() < request.limit) item = counter_.take();
    if (!item) return;
    messenger_.send(request.rank, {.kind = kTicket, .number = *item});
  }
}

}  // namespace runtime::train
