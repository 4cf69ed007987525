// Queues work on a thread of its own, delays it at random, and records it during a capture.
#include "backends/simulated/stream.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace backends::simulated {

namespace {

// Events are late, too: every task takes a random time before it runs.
const Task kDelay = CallTask{[] {}};

}  // namespace

Stream::Stream(Device& device)
    : device_(device),
      random_(device.next_stream_seed()),
      queue_([this](Task& task) { run(task); }) {}

Stream::~Stream() {
  try {
    submit_late();
  } catch (const std::exception&) {
    // There is no memory to queue them, and nobody who could be told.
  }
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
  if (capture_) return capture_->push_back(std::move(task));
  const auto* const launch = std::get_if<LaunchTask>(&task);
  const bool late = launch != nullptr && launch->planned->name() == device_.options().late;
  late ? late_.push_back(std::move(task)) : queue_.submit(std::move(task));
}

void Stream::submit_late() {
  for (Task& task : late_) queue_.submit(std::move(task));
  late_.clear();
}

void Stream::copy(void* destination, const void* source, uint64_t bytes) {
  CopyTask task{destination, source, bytes, {}};
  if (device_.is_pageable(source)) {
    const std::byte* begin = device_.any_range(source, bytes, {"copy", "source"});
    task.staged.assign(begin, begin + bytes);
  }
  submit(std::move(task));
}

void Stream::fill(void* destination, int32_t value, uint64_t bytes) {
  submit(FillTask{destination, value, bytes});
}

Marker Stream::mark() {
  refuse_in_capture("events");
  queue_.submit(kDelay);
  if (!device_.has_clock()) return {queue_.mark(), nullptr};
  const auto time = std::make_shared<int64_t>(0);
  queue_.submit(CallTask{[this, time] { *time = device_.clock(); }});
  return {queue_.mark(), time};
}

void Stream::wait(const Marker& marker) {
  refuse_in_capture("events");
  queue_.submit(kDelay);
  queue_.wait(marker.point);
}

void Stream::synchronize() {
  refuse_in_capture("synchronize");
  submit_late();
  queue_.synchronize();
  rested_ = true;
}

void Stream::run(Task& task) {
  std::uniform_int_distribution<int64_t> delay(0, device_.options().max_delay_us);
  if (const int64_t us = delay(random_); us > 0)
    std::this_thread::sleep_for(std::chrono::microseconds(us));
  if (const auto* launch = std::get_if<LaunchTask>(&task)) run(*launch);
  if (const auto* copy = std::get_if<CopyTask>(&task)) run(*copy);
  if (const auto* fill = std::get_if<FillTask>(&task)) run(*fill);
  if (const auto* call = std::get_if<CallTask>(&task)) call->call();
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

// A launch fails long after its call, so that the host cannot say which one it was.
void Stream::run(const LaunchTask& task) {
  try {
    run_kernel(task);
    if (device_.has_clock()) take_time(task);
  } catch (const rt::sdk::Error& error) {
    if (task.label->empty()) throw;
    throw rt::sdk::Error(error.code(), *task.label + ": " + error.what(), error.scope());
  }
}

void Stream::take_time(const LaunchTask& task) {
  const Options& options = device_.options();
  const auto up_to = [&](int64_t ns) {
    return std::uniform_int_distribution<int64_t>(0, ns)(random_);
  };
  int64_t ns = task.ns + up_to(options.scatter_ns);
  if (rested_.exchange(false)) ns += up_to(options.wake_ns);
  if (!task.loaded->exchange(true)) ns += options.load_ns;
  device_.advance_clock(ns);
}

void Stream::run_kernel(const LaunchTask& task) {
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
  const std::byte* source = task.staged.empty()
                                ? device_.any_range(task.source, task.bytes, {"copy", "source"})
                                : task.staged.data();
  std::memcpy(device_.any_range(task.destination, task.bytes, {"copy", "destination"}), source,
              task.bytes);
}

void Stream::run(const FillTask& task) {
  std::memset(device_.any_range(task.destination, task.bytes, {"fill", "destination"}), task.value,
              task.bytes);
}

}  // namespace backends::simulated
