// The host's handle over rt/capture.h: recorded work that one call queues again.
#ifndef PLUGINS_HOST_RECORDING_H_
#define PLUGINS_HOST_RECORDING_H_

#include <functional>

#include "plugins/host/device.h"

namespace plugins::host {

// Recorded work of a stream. Movable. Keeps its device open; the memory and plans that the work
// uses must outlive it. Equivalent to: torch.cuda.CUDAGraph.
class Recording {
 public:
  Recording() = default;
  // Records what `work` queues on the stream; it does not run. Throws what `work` throws, or Error
  // with the device's message if something cannot be recorded; the stream then works as before.
  Recording(Stream& stream, const std::function<void()>& work);
  // Queues the recorded work. A recording may run on only one stream at a time.
  void replay(Stream& stream);
  explicit operator bool() const { return recording_ != nullptr; }

 private:
  std::shared_ptr<Device> device_;
  Handle<Device, rt_recording> recording_;
  std::shared_ptr<const std::string> last_;  // Operation::label of its last launch
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_RECORDING_H_
