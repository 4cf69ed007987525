// Notices a device that does not answer any more: every wait for it would otherwise last for ever,
// in silence.
#ifndef RUNTIME_LAUNCH_DEVICE_WATCH_H_
#define RUNTIME_LAUNCH_DEVICE_WATCH_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "plugins/host/device.h"

namespace runtime::launch {

// A thread that looks regularly at the calls that wait for devices. Thread-safe.
class DeviceWatch {
 public:
  struct Options {
    std::chrono::nanoseconds interval;
    std::chrono::nanoseconds note_after;  // a call that lasts as long is noted once
    std::chrono::nanoseconds end_after;   // a call that lasts as long ends the run; 0: none does
    std::function<void(const std::string&text)> note, end;  // called by the thread
  };
  explicit DeviceWatch(Options options);
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  // Adds a device, which may be closed at any time.
  void add(const plugins::host::Device& device);
  // The longest call of all devices that has not returned yet; nullopt if there is none.
  std::optional<plugins::host::Silence> silence();

 private:
  void watch();
  void judge(const plugins::host::Silence& silence);

  const Options options_;
  bool noted_ = false;  // used by the thread only
  std::mutex mutex_;
  std::vector<std::weak_ptr<plugins::host::Calls>> calls_;  // guarded by mutex_, as the rest
  std::condition_variable ended_;
  bool ends_ = false;
  std::thread thread_;
};

// Watches a device of this process until it is closed. A call that lasts for 60 s is noted on the
// standard error output; one that lasts for `timeout_s` (device.timeout_s; 0: never) ends the
// process with exit code 3. The first call of a process says how long. Any thread.
void watch_device(const plugins::host::Device& device, double timeout_s);

// The longest call of the watched devices that has not returned yet, for train::StopSignal.
std::optional<plugins::host::Silence> device_silence();

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_DEVICE_WATCH_H_
