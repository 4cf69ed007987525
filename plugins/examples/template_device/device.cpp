// Implements the table of C functions of a device that uses host memory and does its work in the
// calling thread, without queues. For an accelerator, call the vendor's library in allocate, copy
// and fill, keep its objects in rt_stream and rt_event, and remove the flags RT_DEVICE_INLINE and
// RT_DEVICE_HOST_MEMORY from `properties`.
#include <chrono>
#include <cstring>
#include <new>

#include "rt/sdk/error.h"
#include "rt/sdk/structs.h"
#include "template.h"

struct rt_device {};
struct rt_stream {};
struct rt_event {
  std::chrono::steady_clock::time_point recorded{};
};

namespace template_device {
namespace {

using rt::sdk::Error;
using rt::sdk::guard;
using rt::sdk::write_output;

constexpr std::align_val_t kAlignment{64};

void check_index(int32_t index) {
  if (index != 0) {
    throw Error(RT_ERROR_INVALID_ARGUMENT, rt::sdk::format("device %d; only 0 exists", index));
  }
}

rt_status count(void*, int32_t* result, rt_error* error) {
  return guard(error, [&] { *result = 1; });
}

// A plugin should also list a device that cannot be used because its driver is missing, without the
// flag RT_DEVICE_USABLE and with the reason.
rt_status properties(void*, int32_t index, rt_device_properties* result, rt_error* error) {
  return guard(error, [&] {
    check_index(index);
    rt_device_properties p{};
    p.flags = RT_DEVICE_USABLE | RT_DEVICE_INLINE | RT_DEVICE_HOST_MEMORY;
    rt::sdk::copy_text(p.name, "template device");
    rt::sdk::copy_text(p.stable_id, "template-0");
    p.memory_bytes = uint64_t{1} << 30;
    p.storage_dtypes = RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_INT32);
    p.compute_dtypes = RT_DTYPE_BIT(RT_FLOAT32);
    p.alignment = static_cast<uint64_t>(kAlignment);
    p.priority = 0;  // device.backend = "auto" takes it last; see plugins/README.md
    p.threads = 1;
    write_output(result, p);
  });
}

rt_status open(void*, int32_t index, const rt_device_options* options, rt_device** result,
               rt_error* error) {
  return guard(error, [&] {
    rt::sdk::check_input(options);
    check_index(index);
    *result = new rt_device;
  });
}

rt_status allocate(rt_device*, uint64_t bytes, int32_t, void** address, rt_error* error) {
  return guard(error, [&] { *address = ::operator new(bytes, kAlignment); });
}

rt_status event_elapsed(rt_event* begin, rt_event* end, int64_t* nanoseconds, rt_error* error) {
  return guard(error, [&] {
    *nanoseconds = std::chrono::nanoseconds(end->recorded - begin->recorded).count();
  });
}

rt_status memory_info(rt_device*, rt_memory_info* info, rt_error* error) {
  return guard(error, [&] {
    rt_memory_info value{};
    value.total_bytes = value.free_bytes = uint64_t{1} << 30;
    write_output(info, value);
  });
}

rt_device_api make_api() {
  rt_device_api api{};
  api.size = sizeof(api);
  api.version = RT_DEVICE_API_VERSION;
  api.count = count;
  api.properties = properties;
  api.open = open;
  api.close = [](rt_device* device) { delete device; };
  api.allocate = allocate;
  api.free = [](rt_device*, void* address, int32_t) { ::operator delete(address, kAlignment); };
  api.stream_create = [](rt_device*, rt_stream** stream, rt_error* error) -> rt_status {
    return guard(error, [&] { *stream = new rt_stream; });
  };
  api.stream_destroy = [](rt_stream* stream) { delete stream; };
  api.stream_synchronize = [](rt_stream*, rt_error*) -> rt_status { return RT_OK; };
  api.copy = [](rt_stream*, void* to, const void* from, uint64_t bytes, rt_error*) -> rt_status {
    std::memcpy(to, from, bytes);
    return RT_OK;
  };
  api.fill = [](rt_stream*, void* to, int32_t value, uint64_t bytes, rt_error*) -> rt_status {
    std::memset(to, value, bytes);
    return RT_OK;
  };
  api.event_create = [](rt_device*, rt_event** event, rt_error* error) -> rt_status {
    return guard(error, [&] { *event = new rt_event; });
  };
  api.event_destroy = [](rt_event* event) { delete event; };
  api.event_record = [](rt_event* event, rt_stream*, rt_error*) -> rt_status {
    event->recorded = std::chrono::steady_clock::now();
    return RT_OK;
  };
  api.event_wait = [](rt_event*, rt_stream*, rt_error*) -> rt_status { return RT_OK; };
  api.event_synchronize = [](rt_event*, rt_error*) -> rt_status { return RT_OK; };
  api.event_query = [](rt_event*, rt_error*) -> rt_status { return RT_OK; };
  api.event_elapsed = event_elapsed;
  api.memory_info = memory_info;
  return api;  // utilisation stays NULL: the load is not known
}

}  // namespace

const rt_device_api kDeviceApi = make_api();

}  // namespace template_device
