// A step that is queued with one call: the host's handle over rt/capture.h.
#ifndef PLUGINS_HOST_RECORDING_H_
#define PLUGINS_HOST_RECORDING_H_

#include <functional>

#include "plugins/host/device.h"

namespace plugins::host {

// Work of a stream. Movable; keeps its device open, and what the work uses must stay where it is.
class Recording {
 public:
  Recording() = default;
  // What `work` queues on the stream is recorded and does not run. Throws what `work` throws, or
  // Error with the device's words if something cannot be recorded; the stream works as before then.
  Recording(Stream& stream, const std::function<void()>& work);
  Recording(Recording&& other) noexcept;
  Recording& operator=(Recording&& other) noexcept;
  ~Recording();
  void replay(Stream& stream);
  explicit operator bool() const { return recording_ != nullptr; }

 private:
  std::shared_ptr<Device> device_;
  rt_recording* recording_ = nullptr;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_RECORDING_H_
