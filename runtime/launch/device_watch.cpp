// The thread that looks at waits for devices, notes long ones, and ends the process.
#include "runtime/launch/device_watch.h"

#include <unistd.h>

#include <cstdio>
#include <optional>

#include "runtime/error.h"

namespace runtime::launch {

namespace {

using namespace std::chrono_literals;

std::string seconds(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

void note(const std::string& text) { std::fprintf(stderr, "warning: %s\n", text.c_str()); }

// The thread that waits for the device cannot be interrupted, so that nothing is unwound or saved.
[[noreturn]] void end(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", text.c_str());
  _exit(static_cast<int>(ExitCode::kPlugin));
}

std::unique_ptr<DeviceWatch>& watch_of_process() {
  static std::unique_ptr<DeviceWatch> watch;
  return watch;
}

std::mutex& mutex_of_process() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

DeviceWatch::DeviceWatch(Options options)
    : options_(std::move(options)), thread_([this] { watch(); }) {}

DeviceWatch::~DeviceWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void DeviceWatch::add(const plugins::host::Device& device) {
  const std::lock_guard lock(mutex_);
  std::erase_if(calls_, [](const auto& calls) { return calls.expired(); });
  calls_.push_back(device.calls());
}

std::optional<plugins::host::Silence> DeviceWatch::silence() {
  const std::lock_guard lock(mutex_);
  std::optional<plugins::host::Silence> longest;
  for (const auto& watched : calls_) {
    const std::shared_ptr<plugins::host::Calls> calls = watched.lock();
    const auto silence = calls ? calls->longest() : std::nullopt;
    if (silence && (!longest || silence->time > longest->time)) longest = silence;
  }
  return longest;
}

void DeviceWatch::watch() {
  const auto ends = [this] {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, options_.interval, [this] { return ends_; });
  };
  while (!ends()) judge(silence().value_or(plugins::host::Silence{}));
}

void DeviceWatch::judge(const plugins::host::Silence& silence) {
  const bool is_long = silence.time >= options_.note_after;
  if (is_long && !noted_)
    options_.note("the device has not answered for " + seconds(silence.time) + ": " +
                  silence.place +
                  "; if it hangs, end the run with a signal: one that finds the device silent for "
                  "10 s ends it without saving (device.timeout_s does so by itself)");
  noted_ = is_long;
  if (options_.end_after == 0ns || silence.time < options_.end_after) return;
  options_.end("the device has not answered for " + seconds(silence.time) +
               ", longer than device.timeout_s: " + silence.place +
               "; the run ends without saving. Look at the device (its driver's log, another "
               "process on it), then go on from the newest checkpoint with --resume auto; give "
               "device.timeout_s a larger value if a step takes that long");
}

void watch_device(const plugins::host::Device& device, double timeout_s) {
  const std::lock_guard lock(mutex_of_process());
  std::unique_ptr<DeviceWatch>& watch = watch_of_process();
  const auto timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(timeout_s));
  if (!watch)
    watch = std::make_unique<DeviceWatch>(DeviceWatch::Options{500ms, 60s, timeout, note, end});
  watch->add(device);
}

std::optional<plugins::host::Silence> device_silence() {
  const std::lock_guard lock(mutex_of_process());
  const auto& watch = watch_of_process();
  return watch ? watch->silence() : std::nullopt;
}

}  // namespace runtime::launch
