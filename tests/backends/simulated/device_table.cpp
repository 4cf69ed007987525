#include "rt/plugin.h"
#include "rt/sdk/plugin.h"
#include "tests/backends/simulated/objects.h"

namespace backends::simulated {
namespace {

using rt::sdk::copy_text;
using rt::sdk::Error;
using rt::sdk::format;
using rt::sdk::guard;

Simulator& simulator(void* self) { return *static_cast<Simulator*>(self); }

void expect_index(const Simulator& s, int32_t index) {
  if (index >= 0 && index < s.device_count()) return;
  throw Error(
      RT_ERROR_INVALID_ARGUMENT,
      format("device index %d does not exist; there are %s", index, s.device_names().c_str()),
      RT_SCOPE_DEVICE);
}

rt_status count(void* self, int32_t* count, rt_error*) {
  *count = simulator(self).device_count();
  return RT_OK;
}

rt_status properties(void* self, int32_t index, rt_device_properties* result, rt_error* error) {
  return guard(error, [&] {
    expect_index(simulator(self), index);
    rt_device_properties p{};
    p.flags = RT_DEVICE_USABLE;
    copy_text(p.name, "simulated accelerator");
    copy_text(p.stable_id, "simulated:" + std::to_string(index));
    p.memory_bytes = Options{}.memory_mb << 20;
    p.compute_dtypes = RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_FLOAT64) |
                       RT_DTYPE_BIT(RT_FLOAT16) | RT_DTYPE_BIT(RT_BFLOAT16);
    p.storage_dtypes = p.compute_dtypes | RT_DTYPE_BIT(RT_INT32) | RT_DTYPE_BIT(RT_INT64) |
                       RT_DTYPE_BIT(RT_UINT8) | RT_DTYPE_BIT(RT_INT8);
    p.alignment = Arena::kAlignment;
    rt::sdk::write_output(result, p);
  });
}

rt_status open(void* self, int32_t index, const rt_device_options* options, rt_device** device,
               rt_error* error) {
  return guard(error, [&] {
    expect_index(simulator(self), index);
    rt::sdk::check_input(options);
    *device = new rt_device(simulator(self), index, parse_options(*options));
  });
}

void close(rt_device* device) { delete device; }

rt_status allocate(rt_device* device, uint64_t bytes, int32_t kind, void** address,
                   rt_error* error) {
  return guard(error, [&] { *address = device->device.allocate(bytes, kind); });
}

void free_memory(rt_device* device, void* address, int32_t kind) {
  device->device.release(address, kind);
}

rt_status stream_create(rt_device* device, rt_stream** stream, rt_error* error) {
  return guard(error, [&] { *stream = new rt_stream(device->device); });
}

void stream_destroy(rt_stream* stream) { delete stream; }

rt_status stream_synchronize(rt_stream* stream, rt_error* error) {
  return guard(error, [&] { stream->stream.synchronize(); });
}

rt_status copy(rt_stream* stream, void* destination, const void* source, uint64_t bytes,
               rt_error* error) {
  return guard(error, [&] {
    Stream& s = stream->stream;
    const Device& device = s.device();
    CopyTask task{destination, source, bytes, {}};
    if (bytes > 0 && device.is_pageable(source)) {
      const std::byte* begin = device.any_range(source, bytes, {"copy", "source"});
      task.staged.assign(begin, begin + bytes);
    }
    s.submit(std::move(task));
  });
}

rt_status fill(rt_stream* stream, void* destination, int32_t value, uint64_t bytes,
               rt_error* error) {
  return guard(error, [&] { stream->stream.submit(FillTask{destination, value, bytes}); });
}

rt_status event_create(rt_device*, rt_event** event, rt_error* error) {
  return guard(error, [&] { *event = new rt_event{std::make_shared<Event>()}; });
}

void event_destroy(rt_event* event) { delete event; }

rt_status event_record(rt_event* event, rt_stream* stream, rt_error* error) {
  return guard(error, [&] {
    stream->stream.submit(RecordTask{event->event, event->event->arm()});
  });
}

rt_status event_wait(rt_event* event, rt_stream* stream, rt_error* error) {
  return guard(error, [&] {
    stream->stream.submit(WaitTask{event->event, event->event->latest()});
  });
}

rt_status event_synchronize(rt_event* event, rt_error* error) {
  return guard(error, [&] { event->event->wait(event->event->latest()); });
}

rt_status event_query(rt_event* event, rt_error*) {
  return event->event->is_complete(event->event->latest()) ? RT_OK : RT_NOT_READY;
}

rt_status event_elapsed(rt_event* begin, rt_event* end, int64_t* nanoseconds, rt_error* error) {
  return guard(error, [&] {
    const auto from = begin->event->time(), to = end->event->time();
    if (!from || !to) {
      throw Error(RT_ERROR_INVALID_ARGUMENT,
                  "event_elapsed: an event was never recorded or is not complete; synchronise it "
                  "first");
    }
    *nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(*to - *from).count();
  });
}

rt_status memory_info(rt_device* device, rt_memory_info* info, rt_error* error) {
  return guard(error, [&] {
    const Arena& arena = device->device.arena();
    rt_memory_info value{};
    value.total_bytes = arena.total_bytes();
    value.allocated_bytes = arena.allocated_bytes();
    value.free_bytes = value.total_bytes - value.allocated_bytes;
    rt::sdk::write_output(info, value);
  });
}

rt_status utilisation(rt_device*, rt_utilisation* utilisation, rt_error* error) {
  return guard(error, [&] {
    const rt_utilisation arbitrary{0, 42, 17, 55, 123456};
    rt::sdk::write_output(utilisation, arbitrary);
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

}  // namespace backends::simulated
