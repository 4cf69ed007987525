// Devices, memory, streams and events of CUDA or HIP. If the driver is missing or too old, the
// plugin lists one device that is not usable, with the driver's text as the reason.
#include "rt/sdk/device_table.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "backends/gpu/objects.h"

namespace backends::gpu {

using rt::sdk::copy_text;
using rt::sdk::Error;
using rt::sdk::format;

namespace {

// The types that operands may have. Operands in 16 bits are computed with in float32.
constexpr uint64_t kComputed = RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_FLOAT64) |
                               RT_DTYPE_BIT(RT_FLOAT16) | RT_DTYPE_BIT(RT_BFLOAT16);
constexpr uint64_t kStored = kComputed | RT_DTYPE_BIT(RT_INT32) | RT_DTYPE_BIT(RT_INT64) |
                             RT_DTYPE_BIT(RT_UINT8) | RT_DTYPE_BIT(RT_INT8);

// The number of the driver's devices. Throws with the driver's text if there is none.
int32_t driver_count() {
  int count = 0;
  check(GPU(GetDeviceCount)(&count), "find devices");
  if (count == 0) {
    throw Error(RT_ERROR_UNAVAILABLE, format("%s: no device found", kApiName), RT_SCOPE_DEVICE);
  }
  return count;
}

GPU_PROPERTIES properties_of(int32_t index) {
  rt::sdk::expect_device(index, driver_count());
  GPU_PROPERTIES p{};
  check(GPU(GetDeviceProperties)(&p, index), "read the properties of the device");
  return p;
}

[[noreturn]] void fail_out_of_memory(const rt_device& device, uint64_t bytes) {
  size_t free_bytes = 0, total = 0;
  static_cast<void>(GPU(MemGetInfo)(&free_bytes, &total));
  throw Error(RT_ERROR_OUT_OF_MEMORY,
              format("%s:%d: allocate %llu bytes failed, %zu of %zu bytes are free", kPluginName,
                     device.gpu.index, static_cast<unsigned long long>(bytes), free_bytes, total),
              RT_SCOPE_DEVICE);
}

}  // namespace

void check(GPU(Error_t) status, const char* what) {
  if (status == GPU(Success)) return;
  // The device reports these faults of a kernel at any later call.
  const bool late = status == GPU(ErrorIllegalAddress) || status == GPU(ErrorLaunchFailure);
  const char* const cause = late ? "; a kernel that was queued before may be the cause" : "";
  static_cast<void>(GPU(GetLastError)());  // so that the error is not reported again
  const bool unavailable = status == GPU(ErrorNoDevice) || status == GPU(ErrorInsufficientDriver);
  Error error(unavailable ? RT_ERROR_UNAVAILABLE : RT_ERROR_DEVICE,
              format("%s: %s failed: %s%s", kApiName, what, GPU(GetErrorString)(status), cause),
              RT_SCOPE_DEVICE);
  throw error.native(kApiName, static_cast<int64_t>(status));
}

void use(const rt_device& device) { check(GPU(SetDevice)(device.gpu.index), "choose the device"); }

// At least one: an unusable device carries the reason why the driver has none.
int32_t Devices::count() {
  int32_t count = 1;
  rt::sdk::guard(nullptr, [&] { count = driver_count(); });
  return count;
}

rt_device_properties Devices::properties(int32_t index) {
  rt_device_properties p{};
  p.storage_dtypes = kStored;
  p.compute_dtypes = kComputed;
  p.alignment = kAlignment;
  p.priority = kPriority;
  try {
    const GPU_PROPERTIES from = properties_of(index);
    copy_text(p.name, from.name);
    copy_text(p.stable_id, format("%s-%04x:%02x:%02x", from.name, from.pciDomainID, from.pciBusID,
                                  from.pciDeviceID));
    p.memory_bytes = from.totalGlobalMem;
    p.flags = RT_DEVICE_USABLE;
  } catch (const Error& reason) {
    if (reason.code() == RT_ERROR_INVALID_ARGUMENT) throw;
    copy_text(p.name, format("%s device", kApiName));
    copy_text(p.unusable_reason, reason.what());
  }
  return p;
}

rt_device* Devices::open(int32_t index, const rt_device_options& options) const {
  const GPU_PROPERTIES from = properties_of(index);
  auto made = std::make_unique<rt_device>();
  made->gpu.index = index;
  made->address = {static_cast<unsigned>(from.pciDomainID), static_cast<unsigned>(from.pciBusID),
                   static_cast<unsigned>(from.pciDeviceID)};
  made->properties.multiprocessors = from.multiProcessorCount;
  use(*made);
  made->vendor = open_vendor(options, made->properties, host);
  return made.release();
}

}  // namespace backends::gpu

using backends::gpu::allocate_pinned;
using backends::gpu::check;
using backends::gpu::fail_out_of_memory;
using backends::gpu::free_pinned;
using backends::gpu::kNvidia;
using backends::gpu::open_nvml;
using backends::gpu::open_rocm_smi;
using backends::gpu::use;

void* rt_device::allocate(uint64_t bytes, int32_t kind) {
  use(*this);
  void* memory = nullptr;
  const auto status =
      kind == RT_MEMORY_DEVICE ? GPU(Malloc)(&memory, bytes) : allocate_pinned(&memory, bytes);
  if (status == GPU_OUT_OF_MEMORY) {
    static_cast<void>(GPU(GetLastError)());
    fail_out_of_memory(*this, bytes);
  }
  check(status, "allocate memory");
  const std::lock_guard lock(mutex);
  allocations.emplace(memory, bytes);
  allocated_bytes += bytes;
  return memory;
}

void rt_device::release(void* memory, int32_t kind) {
  {
    const std::lock_guard lock(mutex);
    const auto found = allocations.find(memory);
    if (found == allocations.end()) return;
    allocated_bytes -= found->second;
    allocations.erase(found);
  }
  // An error cannot be handled here; the next call reports it.
  static_cast<void>(kind == RT_MEMORY_PINNED_HOST ? free_pinned(memory) : GPU(Free)(memory));
}

rt_memory_info rt_device::memory_info() {
  use(*this);
  size_t free_bytes = 0, total = 0;
  check(GPU(MemGetInfo)(&free_bytes, &total), "read the memory in use");
  rt_memory_info value{};
  value.total_bytes = total;
  value.free_bytes = free_bytes;
  const std::lock_guard lock(mutex);
  value.allocated_bytes = allocated_bytes;
  return value;
}

rt_utilisation rt_device::utilisation() {
  rt_utilisation value{0, -1, -1, -1, -1};
  const std::lock_guard lock(telemetry_mutex);
  if (!std::exchange(telemetry_opened, true)) {
    telemetry = kNvidia ? open_nvml(address) : open_rocm_smi(address);
  }
  if (telemetry) telemetry->read(value);
  return value;
}

rt_stream::rt_stream(rt_device& owner) : gpu{}, device(&owner) {
  use(owner);
  GPU(Stream_t) made{};
  check(GPU(StreamCreateWithFlags)(&made, GPU(StreamNonBlocking)), "create a stream");
  gpu.native = made;
}

rt_stream::~rt_stream() {
  static_cast<void>(GPU(SetDevice)(device->gpu.index));
  static_cast<void>(GPU(StreamSynchronize)(native()));
  if (device->vendor) device->vendor->forget(native());
  static_cast<void>(GPU(StreamDestroy)(native()));
}

void rt_stream::synchronize() { check(GPU(StreamSynchronize)(native()), "wait for a stream"); }

void rt_stream::copy(void* to, const void* from, uint64_t bytes) {
  use(*device);
  check(GPU(MemcpyAsync)(to, from, bytes, GPU(MemcpyDefault), native()), "copy");
}

void rt_stream::fill(void* to, int32_t value, uint64_t bytes) {
  use(*device);
  check(GPU(MemsetAsync)(to, value, bytes, native()), "fill");
}

rt_event::rt_event(rt_device& owner) : device(&owner), event{} {
  use(owner);
  check(GPU(EventCreate)(&event), "create an event");
}

rt_event::~rt_event() { static_cast<void>(GPU(EventDestroy)(event)); }

void rt_event::record(rt_stream& stream) {
  use(*stream.device);
  check(GPU(EventRecord)(event, stream.native()), "record an event");
  ever_recorded = true;
}

void rt_event::wait(rt_stream& stream) {
  if (!ever_recorded) return;
  use(*stream.device);
  check(GPU(StreamWaitEvent)(stream.native(), event, 0), "wait for an event on a stream");
}

// An error of CUDA and HIP stays with the context, so that events report it as streams do.
void rt_event::synchronize() {
  if (ever_recorded) check(GPU(EventSynchronize)(event), "wait for an event");
}

bool rt_event::is_complete() {
  if (!ever_recorded) return true;
  const auto status = GPU(EventQuery)(event);
  if (status == GPU(ErrorNotReady)) {
    static_cast<void>(GPU(GetLastError)());
    return false;
  }
  check(status, "query an event");
  return true;
}

int64_t rt_event::elapsed_until(rt_event& end) {
  if (!ever_recorded || !end.ever_recorded) {
    throw rt::sdk::Error(RT_ERROR_INVALID_ARGUMENT, "event_elapsed: an event was never recorded");
  }
  float milliseconds = 0;
  check(GPU(EventElapsedTime)(&milliseconds, event, end.event), "read the time between events");
  return static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
}
