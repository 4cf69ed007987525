// The objects behind the opaque types of the contract, and the tables of functions on them.
#ifndef TESTS_BACKENDS_SIMULATED_OBJECTS_H_
#define TESTS_BACKENDS_SIMULATED_OBJECTS_H_

#include <memory>

#include "rt/capture.h"
#include "tests/backends/simulated/stream.h"

struct rt_device {
  rt_device(backends::simulated::Simulator& simulator, int32_t index,
            const backends::simulated::Options& options)
      : device(simulator, index, options) {}
  backends::simulated::Device device;
};
struct rt_stream {
  explicit rt_stream(backends::simulated::Device& device) : stream(device) {}
  backends::simulated::Stream stream;
};
// Queued work shares the ownership of events and plans that it needs.
struct rt_event {
  std::shared_ptr<backends::simulated::Event> event;
};
struct rt_recording {
  std::vector<backends::simulated::Task> tasks;
};
struct rt_plan {
  std::shared_ptr<const backends::reference::Planned> planned;
  bool varying;         // by the option of that name
  rt_kernel_work work;  // rt_plan_info.work
};

namespace backends::simulated {

const rt_device_api* device_table();
const rt_kernel_api* kernel_table();
const rt_capture_api* capture_table();

}  // namespace backends::simulated

#endif  // TESTS_BACKENDS_SIMULATED_OBJECTS_H_
