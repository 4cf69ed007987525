// The opaque structs of the contract, and the two tables, as cuda and rocm share them.
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
#include "rt/native.h"

// One opened device.
struct rt_device {
  rt_gpu_device gpu;  // must be first, see rt/gpu.h
  backends::gpu::Properties properties;
  std::unique_ptr<backends::gpu::Vendor> vendor;  // null: our own kernels only
  std::mutex mutex;
  std::map<void*, uint64_t> allocations;  // guarded by mutex
  uint64_t allocated_bytes = 0;           // guarded by mutex

  backends::gpu::PciAddress address;
  std::mutex telemetry_mutex;  // guards the members below
  bool telemetry_opened = false;
  std::unique_ptr<backends::gpu::Telemetry> telemetry;  // null: the library is missing or not asked
                                                        // yet
};

// A stream of CUDA or HIP.
struct rt_stream {
  rt_gpu_stream gpu;  // must be first, see rt/gpu.h
  rt_device* device;
  GPU(Stream_t) native() const { return static_cast<GPU(Stream_t)>(gpu.native); }
};

// An event of CUDA or HIP.
struct rt_event {
  rt_device* device;
  GPU(Event_t) event;
  bool ever_recorded = false;
};

// A plan and what its launches must pass.
struct rt_plan {
  rt_device* device;
  std::string name;
  backends::gpu::Kernel kernel;
  std::array<uint32_t, RT_MAX_OUTPUTS> in_place{};
  std::vector<uint64_t> input_bytes, output_bytes;
  std::vector<rt_kernel_work> work;  // rt_plan_info.work
};

namespace backends::gpu {

// The object behind the `self` of the plugin's functions.
struct Instance {
  rt_plugin plugin{};
  const rt_host* host = nullptr;
};

// The tables of the plugin; they live as long as the process.
const rt_device_api& device_api();
const rt_kernel_api& kernel_api();
const rt_native_api& native_api();
const rt_capture_api* capture_api();  // null: this build cannot record

// Makes `device` the calling thread's current device. Throws as check() does.
void use(const rt_device& device);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_OBJECTS_H_
