// The device table: one device, reference:0, which is the host itself. All work is done in the
// calling thread before the call returns.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "backends/reference/objects.h"
#include "rt/sdk/plugin.h"

namespace backends::reference {
namespace {

using rt::sdk::copy_text;
using rt::sdk::Error;
using rt::sdk::format;
using rt::sdk::guard;

constexpr uint64_t kAlignment = 64;  // one cache line, and the widest vector register
// The types that operands may have. Operands in 16 bits are widened, computed with in float32, and
// rounded.
constexpr uint64_t kComputed = RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_FLOAT64) |
                               RT_DTYPE_BIT(RT_FLOAT16) | RT_DTYPE_BIT(RT_BFLOAT16);
constexpr uint64_t kStored = kComputed | RT_DTYPE_BIT(RT_INT32) | RT_DTYPE_BIT(RT_INT64) |
                             RT_DTYPE_BIT(RT_UINT8) | RT_DTYPE_BIT(RT_INT8);

uint64_t pages(int name) {
  const long count = sysconf(name), size = sysconf(_SC_PAGESIZE);
  return count > 0 && size > 0 ? static_cast<uint64_t>(count) * static_cast<uint64_t>(size) : 0;
}

void expect_index(int32_t index) {
  if (index == 0) return;
  throw Error(RT_ERROR_INVALID_ARGUMENT,
              format("device index %d does not exist; there is reference:0 only", index),
              RT_SCOPE_DEVICE);
}

rt_status count(void*, int32_t* count, rt_error*) {
  *count = 1;
  return RT_OK;
}

rt_status properties(void*, int32_t index, rt_device_properties* result, rt_error* error) {
  return guard(error, [&] {
    expect_index(index);
    rt_device_properties p{};
    p.flags = RT_DEVICE_USABLE | RT_DEVICE_INLINE | RT_DEVICE_HOST_MEMORY | RT_DEVICE_DEFINITION;
    copy_text(p.name, "reference (host, 1 thread)");
    copy_text(p.stable_id, "reference:0");
    p.memory_bytes = pages(_SC_PHYS_PAGES);
    p.storage_dtypes = kStored;
    p.compute_dtypes = kComputed;
    p.alignment = kAlignment;
    p.priority = 100;
    p.threads = 1;
    rt::sdk::write_output(result, p);
  });
}

rt_status open(void*, int32_t index, const rt_device_options* options, rt_device** device,
               rt_error* error) {
  return guard(error, [&] {
    expect_index(index);
    rt::sdk::check_input(options);
    *device = new rt_device;
  });
}

void close(rt_device* device) { delete device; }

rt_status allocate(rt_device* device, uint64_t bytes, int32_t kind, void** address,
                   rt_error* error) {
  return guard(error, [&] {
    if (bytes == 0) throw Error(RT_ERROR_INVALID_ARGUMENT, "allocate: 0 bytes asked for");
    if (kind != RT_MEMORY_DEVICE && kind != RT_MEMORY_PINNED_HOST) {
      throw Error(RT_ERROR_INVALID_ARGUMENT, format("allocate: memory kind %d is unknown", kind));
    }
    // The system would grant more than the machine has (overcommitment), and the process would be
    // killed when it uses the memory.
    const bool fits = bytes <= pages(_SC_PHYS_PAGES);
    const uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* memory = fits ? std::aligned_alloc(kAlignment, rounded) : nullptr;
    if (memory == nullptr) {
      throw Error(RT_ERROR_OUT_OF_MEMORY,
                  format("reference:0: allocate %llu bytes failed, %llu bytes are free",
                         static_cast<unsigned long long>(bytes),
                         static_cast<unsigned long long>(pages(_SC_AVPHYS_PAGES))),
                  RT_SCOPE_DEVICE);
    }
    std::unique_ptr<void, decltype(&std::free)> owner(memory, &std::free);
    const std::lock_guard lock(device->mutex);
    device->allocations.emplace(memory, bytes);
    device->allocated_bytes += bytes;
    *address = owner.release();
  });
}

void free_memory(rt_device* device, void* address, int32_t) {
  {
    const std::lock_guard lock(device->mutex);
    const auto found = device->allocations.find(address);
    if (found == device->allocations.end()) return;
    device->allocated_bytes -= found->second;
    device->allocations.erase(found);
  }
  std::free(address);
}

rt_status stream_create(rt_device* device, rt_stream** stream, rt_error* error) {
  return guard(error, [&] { *stream = new rt_stream{device}; });
}
void stream_destroy(rt_stream* stream) { delete stream; }
rt_status stream_synchronize(rt_stream*, rt_error*) { return RT_OK; }

rt_status copy(rt_stream*, void* destination, const void* source, uint64_t bytes, rt_error*) {
  if (bytes > 0) std::memcpy(destination, source, bytes);
  return RT_OK;
}
rt_status fill(rt_stream*, void* destination, int32_t value, uint64_t bytes, rt_error*) {
  if (bytes > 0) std::memset(destination, value, bytes);
  return RT_OK;
}

rt_status event_create(rt_device*, rt_event** event, rt_error* error) {
  return guard(error, [&] { *event = new rt_event; });
}
void event_destroy(rt_event* event) { delete event; }
rt_status event_record(rt_event* event, rt_stream*, rt_error*) {
  event->recorded = std::chrono::steady_clock::now();
  event->ever_recorded = true;
  return RT_OK;
}
rt_status event_wait(rt_event*, rt_stream*, rt_error*) { return RT_OK; }
rt_status event_synchronize(rt_event*, rt_error*) { return RT_OK; }
rt_status event_query(rt_event*, rt_error*) { return RT_OK; }
rt_status event_elapsed(rt_event* begin, rt_event* end, int64_t* nanoseconds, rt_error* error) {
  return guard(error, [&] {
    if (!begin->ever_recorded || !end->ever_recorded) {
      throw Error(RT_ERROR_INVALID_ARGUMENT, "event_elapsed: an event was never recorded");
    }
    *nanoseconds =
        std::chrono::duration_cast<std::chrono::nanoseconds>(end->recorded - begin->recorded)
            .count();
  });
}

rt_status memory_info(rt_device* device, rt_memory_info* info, rt_error* error) {
  return guard(error, [&] {
    rt_memory_info value{};
    value.total_bytes = pages(_SC_PHYS_PAGES);
    value.free_bytes = pages(_SC_AVPHYS_PAGES);
    const std::lock_guard lock(device->mutex);
    value.allocated_bytes = device->allocated_bytes;
    rt::sdk::write_output(info, value);
  });
}

rt_status utilisation(rt_device*, rt_utilisation* utilisation, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::write_output(utilisation, rt_utilisation{0, -1, -1, -1, -1});
  });
}

}  // namespace

const rt_device_api* device_table() {
  static const rt_device_api table = {sizeof(rt_device_api),
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
  return &table;
}

}  // namespace backends::reference
