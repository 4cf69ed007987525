#include "tests/backends/simulated/stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace backends::simulated {

uint64_t Event::arm() {
  const std::lock_guard lock(mutex_);
  return ++armed_;
}

uint64_t Event::latest() const {
  const std::lock_guard lock(mutex_);
  return armed_;
}

void Event::complete(uint64_t record) {
  const std::lock_guard lock(mutex_);
  if (record <= completed_) return;
  completed_ = record;
  time_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

bool Event::is_complete(uint64_t record) const {
  const std::lock_guard lock(mutex_);
  return completed_ >= record;
}

void Event::wait(uint64_t record) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return completed_ >= record; });
}

std::optional<Event::Time> Event::time() const {
  const std::lock_guard lock(mutex_);
  return completed_ > 0 && completed_ == armed_ ? std::optional(time_) : std::nullopt;
}

Stream::Stream(Device& device)
    : device_(device),
      random_(device.next_stream_seed()),
      ring_(1024),
      worker_([this] { work(); }) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  queued_.notify_one();
  worker_.join();
}

void Stream::refuse_in_capture(const char* what) const {
  if (!capture_) return;
  throw rt::sdk::Error(RT_ERROR_INVALID_ARGUMENT,
                       std::string(what) + ": not while the stream is being recorded",
                       RT_SCOPE_STREAM);
}

void Stream::begin_capture() {
  refuse_in_capture("begin");
  capture_.emplace();
}

std::vector<Task> Stream::end_capture() {
  std::vector<Task> tasks = std::move(*capture_);
  capture_.reset();
  return tasks;
}

void Stream::submit(Task task) {
  if (capture_) {
    if (std::holds_alternative<RecordTask>(task) || std::holds_alternative<WaitTask>(task))
      refuse_in_capture("events");
    capture_->push_back(std::move(task));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (count_ == ring_.size()) {
      std::rotate(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(head_), ring_.end());
      head_ = 0;
      ring_.resize(2 * ring_.size());
    }
    ring_[(head_ + count_) % ring_.size()] = std::move(task);
    ++count_;
  }
  queued_.notify_one();
}

void Stream::synchronize() {
  refuse_in_capture("synchronize");
  std::unique_lock lock(mutex_);
  waiting_ = true;
  queued_.notify_one();
  idle_.wait(lock, [&] { return count_ == 0 && !busy_ && late_.empty(); });
  waiting_ = false;
  if (const auto error = std::exchange(error_, std::nullopt)) throw *error;
}

// Takes the next task of the queue. Launches of the operation `late` follow when a thread waits for
// the stream and no other task is left.
bool Stream::pop(Task& task) {
  std::unique_lock lock(mutex_);
  while (true) {
    queued_.wait(lock, [&] { return count_ > 0 || stop_ || (waiting_ && !late_.empty()); });
    if (count_ == 0 && late_.empty()) return false;
    busy_ = true;
    if (count_ == 0) {
      task = std::exchange(late_.front(), Task{});
      late_.erase(late_.begin());
      return true;
    }
    task = std::exchange(ring_[head_], Task{});
    head_ = (head_ + 1) % ring_.size();
    --count_;
    const auto* launch = std::get_if<LaunchTask>(&task);
    if (launch == nullptr || launch->planned->name() != device_.options().late) return true;
    late_.push_back(std::move(task));
    busy_ = false;
  }
}

void Stream::work() {
  std::uniform_int_distribution<int64_t> delay(0, device_.options().max_delay_us);
  for (Task task; pop(task);) {
    if (const int64_t us = delay(random_); us > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(us));
    }
    run(task);
    task = Task{};
    const std::lock_guard lock(mutex_);
    busy_ = false;
    if (count_ == 0 && late_.empty()) idle_.notify_all();
  }
}

void Stream::run(const Task& task) {
  if (const auto* record = std::get_if<RecordTask>(&task)) {
    return record->event->complete(record->record);
  }
  if (const auto* wait = std::get_if<WaitTask>(&task)) return wait->event->wait(wait->record);
  {
    const std::lock_guard lock(mutex_);
    if (error_) return;
  }
  try {
    if (const auto* launch = std::get_if<LaunchTask>(&task)) run(*launch);
    if (const auto* copy = std::get_if<CopyTask>(&task)) run(*copy);
    if (const auto* fill = std::get_if<FillTask>(&task)) run(*fill);
    if (const auto* call = std::get_if<CallTask>(&task)) call->call();
  } catch (const rt::sdk::Error& error) {
    const std::lock_guard lock(mutex_);
    error_ = error;
  }
}

namespace {

// The contract: the host aligns every buffer of a launch to rt_device_properties.alignment.
void check_alignment(const void* address, const reference::Planned& plan, const char* what,
                     size_t i) {
  if (reinterpret_cast<uintptr_t>(address) % Arena::kAlignment == 0) return;
  throw rt::sdk::Error(
      RT_ERROR_INVALID_ARGUMENT,
      rt::sdk::format("%s: %s %zu at %p is not aligned to %llu bytes", plan.name().c_str(), what, i,
                      address, static_cast<unsigned long long>(Arena::kAlignment)));
}

}  // namespace

void Stream::run(const LaunchTask& task) {
  const reference::Planned& plan = *task.planned;
  device_.count_launch(plan.name());
  const auto find = [&](const void* address, uint64_t bytes, const char* what, size_t i) {
    if (bytes == 0) return static_cast<std::byte*>(nullptr);
    std::byte* const data = device_.device_range(address, bytes, {plan.name().c_str(), what, i});
    check_alignment(address, plan, what, i);
    return data;
  };
  std::array<const void*, RT_MAX_INPUTS> inputs{};
  std::array<void*, RT_MAX_OUTPUTS> outputs{};
  for (size_t i = 0; i < plan.input_bytes().size(); ++i) {
    inputs[i] = find(task.inputs[i], plan.input_bytes()[i], "input", i);
  }
  for (size_t i = 0; i < plan.output_bytes().size(); ++i) {
    outputs[i] = find(task.outputs[i], plan.output_bytes()[i], "output", i);
  }
  plan.kernel().run({inputs.data(), outputs.data(),
                     find(task.workspace, plan.kernel().workspace_bytes, "workspace", 0),
                     find(task.saved, plan.saved_bytes(), "saved buffer", 0)});
  damage(plan, outputs[0]);
}

void Stream::damage(const reference::Planned& plan, void* output) const {
  const uint64_t bytes = plan.output_bytes()[0];
  auto* data = static_cast<unsigned char*>(output);
  if (device_.options().corrupt == plan.name()) {
    std::fill_n(data, std::min<uint64_t>(bytes, sizeof(double)), 0xFF);
  }
  // Flips one of the highest bits of a float32's fraction, or the lowest bit of a float64's
  // exponent.
  constexpr uint64_t kWord = 4;
  if (device_.options().wrong == plan.name()) {
    for (uint64_t word = 0; word + kWord <= bytes; word += kWord) data[word + 2] ^= 0x10;
  }
  if (device_.options().overrun == plan.name() && bytes > 0) data[bytes] ^= 0xFF;
}

void Stream::run(const CopyTask& task) {
  if (task.bytes == 0) return;
  const std::byte* source = task.staged.empty()
                                ? device_.any_range(task.source, task.bytes, {"copy", "source"})
                                : task.staged.data();
  std::memcpy(device_.any_range(task.destination, task.bytes, {"copy", "destination"}), source,
              task.bytes);
}

void Stream::run(const FillTask& task) {
  if (task.bytes == 0) return;
  std::memset(device_.any_range(task.destination, task.bytes, {"fill", "destination"}), task.value,
              task.bytes);
}

}  // namespace backends::simulated
