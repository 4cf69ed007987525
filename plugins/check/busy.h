// Keeps a stream busy for a known time, so that what the plugin does too early can be seen, and
// reads what it has done.
#ifndef PLUGINS_CHECK_BUSY_H_
#define PLUGINS_CHECK_BUSY_H_

#include <chrono>

#include "plugins/host/device.h"

namespace plugins::check {

// Work that takes a time that was measured: copies within a buffer of the device.
class Busy {
 public:
  // Measures how long copies take. Throws Skip for an inline device, whose work has always run when
  // the call returns.
  explicit Busy(const std::shared_ptr<host::Device>& device);

  // Queues work for at least about `time` and returns before it has run, if the plugin queues work
  // as it must. Does not wait.
  void queue(host::Stream& stream, std::chrono::milliseconds time);

 private:
  void copy(host::Stream& stream);

  host::Memory memory_;
  std::chrono::nanoseconds one_{};  // the time of one copy
};

// Waits for the stream and returns the first byte of a buffer of the device.
int first_byte(host::Stream& stream, const host::Memory& memory);

}  // namespace plugins::check

#endif  // PLUGINS_CHECK_BUSY_H_
