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

// One opened device. The methods of these structs are those of rt/sdk/device_table.h and
// rt/sdk/kernel_table.h.
struct rt_device {
  void* allocate(uint64_t bytes, int32_t kind);
  void release(void* address, int32_t kind);
  rt_memory_info memory_info();
  rt_utilisation utilisation();

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
  explicit rt_stream(rt_device& device);
  ~rt_stream();
  rt_stream(const rt_stream&) = delete;
  rt_stream& operator=(const rt_stream&) = delete;
  void synchronize();
  void copy(void* to, const void* from, uint64_t bytes);
  void fill(void* to, int32_t value, uint64_t bytes);

  rt_gpu_stream gpu;  // must be first, see rt/gpu.h
  rt_device* device;
  GPU(Stream_t) native() const { return static_cast<GPU(Stream_t)>(gpu.native); }
};

// An event of CUDA or HIP.
struct rt_event {
  explicit rt_event(rt_device& device);
  ~rt_event();
  rt_event(const rt_event&) = delete;
  rt_event& operator=(const rt_event&) = delete;
  void record(rt_stream& stream);
  void wait(rt_stream& stream);
  void synchronize();
  bool is_complete();
  int64_t elapsed_until(rt_event& end);

  rt_device* device;
  GPU(Event_t) event;
  bool ever_recorded = false;
};

// A plan and what its launches must pass.
struct rt_plan {
  rt_plan_info info() const;
  void launch(rt_stream& stream, const rt_launch& launch);

  rt_device* device;
  std::string name;
  backends::gpu::Kernel kernel;
  std::array<uint32_t, RT_MAX_OUTPUTS> in_place{};
  std::vector<uint64_t> input_bytes, output_bytes;
  std::vector<rt_kernel_work> work;  // rt_plan_info.work
};

namespace backends::gpu {

// The devices of one instance of the plugin.
struct Devices {
  static int32_t count();
  static rt_device_properties properties(int32_t index);
  rt_device* open(int32_t index, const rt_device_options& options) const;

  const rt_host* host;
};

// The tables of the plugin; they live as long as the process.
extern const rt_kernel_api kKernelApi;
extern const rt_native_api kNativeApi;
const rt_capture_api* capture_api();  // null: this build cannot record

// Makes `device` the calling thread's current device. Throws as check() does.
void use(const rt_device& device);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_OBJECTS_H_
