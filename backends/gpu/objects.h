// The opaque structs of the contract, and the two tables that cuda and rocm share.
#ifndef BACKENDS_GPU_OBJECTS_H_
#define BACKENDS_GPU_OBJECTS_H_

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/gpu/telemetry.h"
#include "backends/gpu/vendor.h"
#include "rt/capture.h"
#include "rt/device.h"
#include "rt/gpu.h"

struct rt_device {
  rt_gpu_device gpu;  // first, see rt/gpu.h
  backends::gpu::Properties properties;
  std::unique_ptr<backends::gpu::Vendor> vendor;  // null: none
  std::mutex mutex;
  std::map<void*, uint64_t> allocations;  // guarded by mutex
  uint64_t allocated_bytes = 0;           // guarded by mutex

  backends::gpu::PciAddress address;
  std::mutex telemetry_mutex;  // guards the rest
  bool telemetry_opened = false;
  std::unique_ptr<backends::gpu::Telemetry> telemetry;  // null: there is no such library
};

struct rt_stream {
  rt_gpu_stream gpu;  // first, see rt/gpu.h
  rt_device* device;
  GPU(Stream_t) native() const { return static_cast<GPU(Stream_t)>(gpu.native); }
};

struct rt_event {
  rt_device* device;
  GPU(Event_t) event;
  bool ever_recorded = false;
};

struct rt_plan {
  rt_device* device;
  std::string name;
  backends::gpu::Kernel kernel;
  std::array<uint32_t, RT_MAX_OUTPUTS> in_place{};
  std::vector<uint64_t> input_bytes, output_bytes;
};

namespace backends::gpu {

// What the plugin's functions are given as `self`.
struct Instance {
  rt_plugin plugin{};
  const rt_host* host = nullptr;
};

const rt_device_api& device_api();
const rt_kernel_api& kernel_api();
const rt_capture_api* capture_api();  // null: this build cannot record

// The calling thread works with this device from now on.
void use(const rt_device& device);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_OBJECTS_H_
