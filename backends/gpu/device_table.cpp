// The table rt.device: memory, streams and events of CUDA or HIP. If the driver is missing or too
// old, the table lists one device that is not usable, with the driver's text as the reason.
#include "rt/sdk/device_table.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "backends/gpu/objects.h"

namespace backends::gpu {

using rt::sdk::copy_text;
using rt::sdk::Error;
using rt::sdk::format;
using rt::sdk::guard;

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

// At least one: an unusable device carries the reason why the driver has none.
int32_t listed_count() {
  int32_t count = 1;
  guard(nullptr, [&] { count = driver_count(); });
  return count;
}

rt_status count(void*, int32_t* count, rt_error*) {
  *count = listed_count();
  return RT_OK;
}

rt_status properties(void*, int32_t index, rt_device_properties* result, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::expect_device(index, listed_count());
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
    rt::sdk::write_output(result, p);
  });
}

rt_status open(void* self, int32_t index, const rt_device_options* options, rt_device** device,
               rt_error* error) {
  return guard(error, [&] {
    rt::sdk::check_input(options);
    const GPU_PROPERTIES from = properties_of(index);
    auto made = std::make_unique<rt_device>();
    made->gpu.index = index;
    made->address = {static_cast<unsigned>(from.pciDomainID), static_cast<unsigned>(from.pciBusID),
                     static_cast<unsigned>(from.pciDeviceID)};
    made->properties.multiprocessors = from.multiProcessorCount;
    use(*made);
    made->vendor =
        open_vendor(*options, made->properties, static_cast<const Instance*>(self)->host);
    *device = made.release();
  });
}

void close(rt_device* device) { delete device; }

void release(void* address, int32_t kind) {
  // An error cannot be handled here; the next call reports it.
  static_cast<void>(kind == RT_MEMORY_PINNED_HOST ? free_pinned(address) : GPU(Free)(address));
}

[[noreturn]] void fail_out_of_memory(const rt_device& device, uint64_t bytes) {
  size_t free_bytes = 0, total = 0;
  static_cast<void>(GPU(MemGetInfo)(&free_bytes, &total));
  throw Error(RT_ERROR_OUT_OF_MEMORY,
              format("%s:%d: allocate %llu bytes failed, %zu of %zu bytes are free", kPluginName,
                     device.gpu.index, static_cast<unsigned long long>(bytes), free_bytes, total),
              RT_SCOPE_DEVICE);
}

rt_status allocate(rt_device* device, uint64_t bytes, int32_t kind, void** address,
                   rt_error* error) {
  return guard(error, [&] {
    if (bytes == 0) throw Error(RT_ERROR_INVALID_ARGUMENT, "allocate: 0 bytes asked for");
    if (kind != RT_MEMORY_DEVICE && kind != RT_MEMORY_PINNED_HOST) {
      throw Error(RT_ERROR_INVALID_ARGUMENT, format("allocate: memory kind %d is unknown", kind));
    }
    use(*device);
    void* memory = nullptr;
    const auto status =
        kind == RT_MEMORY_DEVICE ? GPU(Malloc)(&memory, bytes) : allocate_pinned(&memory, bytes);
    if (status == GPU_OUT_OF_MEMORY) {
      static_cast<void>(GPU(GetLastError)());
      fail_out_of_memory(*device, bytes);
    }
    check(status, "allocate memory");
    const std::lock_guard lock(device->mutex);
    device->allocations.emplace(memory, bytes);
    device->allocated_bytes += bytes;
    *address = memory;
  });
}

void free_memory(rt_device* device, void* address, int32_t kind) {
  {
    const std::lock_guard lock(device->mutex);
    const auto found = device->allocations.find(address);
    if (found == device->allocations.end()) return;
    device->allocated_bytes -= found->second;
    device->allocations.erase(found);
  }
  release(address, kind);
}

rt_status stream_create(rt_device* device, rt_stream** stream, rt_error* error) {
  return guard(error, [&] {
    use(*device);
    GPU(Stream_t) made{};
    check(GPU(StreamCreateWithFlags)(&made, GPU(StreamNonBlocking)), "create a stream");
    *stream = new rt_stream{{made}, device};
  });
}

void stream_destroy(rt_stream* stream) {
  static_cast<void>(GPU(SetDevice)(stream->device->gpu.index));
  static_cast<void>(GPU(StreamSynchronize)(stream->native()));
  if (stream->device->vendor) stream->device->vendor->forget(stream->native());
  static_cast<void>(GPU(StreamDestroy)(stream->native()));
  delete stream;
}

rt_status stream_synchronize(rt_stream* stream, rt_error* error) {
  return guard(error,
               [&] { check(GPU(StreamSynchronize)(stream->native()), "wait for a stream"); });
}

rt_status copy(rt_stream* stream, void* destination, const void* source, uint64_t bytes,
               rt_error* error) {
  return guard(error, [&] {
    if (bytes == 0) return;
    use(*stream->device);
    check(GPU(MemcpyAsync)(destination, source, bytes, GPU(MemcpyDefault), stream->native()),
          "copy");
  });
}

rt_status fill(rt_stream* stream, void* destination, int32_t value, uint64_t bytes,
               rt_error* error) {
  return guard(error, [&] {
    if (bytes == 0) return;
    use(*stream->device);
    check(GPU(MemsetAsync)(destination, value, bytes, stream->native()), "fill");
  });
}

rt_status event_create(rt_device* device, rt_event** event, rt_error* error) {
  return guard(error, [&] {
    use(*device);
    GPU(Event_t) made{};
    check(GPU(EventCreate)(&made), "create an event");
    *event = new rt_event{device, made};
  });
}

void event_destroy(rt_event* event) {
  static_cast<void>(GPU(EventDestroy)(event->event));
  delete event;
}

rt_status event_record(rt_event* event, rt_stream* stream, rt_error* error) {
  return guard(error, [&] {
    use(*stream->device);
    check(GPU(EventRecord)(event->event, stream->native()), "record an event");
    event->ever_recorded = true;
  });
}

rt_status event_wait(rt_event* event, rt_stream* stream, rt_error* error) {
  return guard(error, [&] {
    if (!event->ever_recorded) return;
    use(*stream->device);
    check(GPU(StreamWaitEvent)(stream->native(), event->event, 0), "wait for an event on a stream");
  });
}

// An error of CUDA and HIP stays with the context, so that events report it as streams do.
rt_status event_synchronize(rt_event* event, rt_error* error) {
  return guard(error, [&] {
    if (event->ever_recorded) check(GPU(EventSynchronize)(event->event), "wait for an event");
  });
}

rt_status event_query(rt_event* event, rt_error* error) {
  return guard(error, [&]() -> rt_status {
    if (!event->ever_recorded) return RT_OK;
    const auto status = GPU(EventQuery)(event->event);
    if (status == GPU(ErrorNotReady)) {
      static_cast<void>(GPU(GetLastError)());
      return RT_NOT_READY;
    }
    check(status, "query an event");
    return RT_OK;
  });
}

rt_status event_elapsed(rt_event* begin, rt_event* end, int64_t* nanoseconds, rt_error* error) {
  return guard(error, [&] {
    if (!begin->ever_recorded || !end->ever_recorded) {
      throw Error(RT_ERROR_INVALID_ARGUMENT, "event_elapsed: an event was never recorded");
    }
    float milliseconds = 0;
    check(GPU(EventElapsedTime)(&milliseconds, begin->event, end->event),
          "read the time between events");
    *nanoseconds = static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
  });
}

rt_status memory_info(rt_device* device, rt_memory_info* info, rt_error* error) {
  return guard(error, [&] {
    use(*device);
    size_t free_bytes = 0, total = 0;
    check(GPU(MemGetInfo)(&free_bytes, &total), "read the memory in use");
    rt_memory_info value{};
    value.total_bytes = total;
    value.free_bytes = free_bytes;
    const std::lock_guard lock(device->mutex);
    value.allocated_bytes = device->allocated_bytes;
    rt::sdk::write_output(info, value);
  });
}

rt_status utilisation(rt_device* device, rt_utilisation* utilisation, rt_error* error) {
  return guard(error, [&] {
    rt_utilisation value{0, -1, -1, -1, -1};
    const std::lock_guard lock(device->telemetry_mutex);
    if (!std::exchange(device->telemetry_opened, true)) {
      device->telemetry = kNvidia ? open_nvml(device->address) : open_rocm_smi(device->address);
    }
    if (device->telemetry) device->telemetry->read(value);
    rt::sdk::write_output(utilisation, value);
  });
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

const rt_device_api& device_api() {
  static const rt_device_api api = {sizeof(rt_device_api),
                                    RT_DEVICE_API_VERSION,
                                    count,
                                    properties,
                                    open,
                                    close,
                                    allocate,
                                    free_memory,
                                    stream_create,
                                    stream_destroy,
                                    stream_synchronize,
                                    copy,
                                    fill,
                                    event_create,
                                    event_destroy,
                                    event_record,
                                    event_wait,
                                    event_synchronize,
                                    event_query,
                                    event_elapsed,
                                    memory_info,
                                    utilisation};
  return api;
}

}  // namespace backends::gpu
