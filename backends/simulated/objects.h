// The objects behind the opaque types of the contract, and the tables of functions on them that
// rt/sdk does not make.
#ifndef BACKENDS_SIMULATED_OBJECTS_H_
#define BACKENDS_SIMULATED_OBJECTS_H_

#include <memory>

#include "backends/simulated/stream.h"
#include "rt/capture.h"
#include "rt/sdk/recorded_event.h"

struct rt_device : backends::simulated::Device {
  using Device::Device;
  // The numbers are arbitrary: there is no hardware whose load could be told.
  static rt_utilisation utilisation() { return {0, 42, 17, 55, 123456}; }
};
struct rt_stream : backends::simulated::Stream {
  explicit rt_stream(rt_device& device) : Stream(device) {}
};
struct rt_event : rt::sdk::RecordedEvent<backends::simulated::Marker> {
  explicit rt_event(rt_device&) {}
};
struct rt_recording {
  std::vector<backends::simulated::Task> tasks;
};
// Queued work shares the ownership of the plans that it needs. The methods are those of
// rt/sdk/kernel_table.h.
struct rt_plan {
  rt_plan_info info() const;
  void launch(rt_stream& stream, const rt_launch& launch);

  std::shared_ptr<const backends::reference::Planned> planned;
  std::shared_ptr<const std::string> label;  // LaunchTask::label
  bool varying;                              // by the option of that name
  rt_kernel_work work;                       // rt_plan_info.work
  int64_t ns;                                // LaunchTask::ns
  std::shared_ptr<std::atomic<bool>> loaded = std::make_shared<std::atomic<bool>>(false);
};

namespace backends::simulated {

extern const rt_kernel_api kKernelTable;
extern const rt_capture_api kCaptureTable;

}  // namespace backends::simulated

#endif  // BACKENDS_SIMULATED_OBJECTS_H_
