// The table rt.device made from C++ classes: the slots are their methods, with exceptions turned
// into statuses.
#ifndef RT_SDK_DEVICE_TABLE_H_
#define RT_SDK_DEVICE_TABLE_H_

#include "rt/device.h"
#include "rt/sdk/device_checks.h"
#include "rt/sdk/plugin.h"
#include "rt/sdk/structs.h"

namespace rt::sdk {

// Fills the slots for streams and events. The template parameters are rt_stream and so on, which
// are complete where device_table is used.
template <typename Device, typename Stream, typename Event>
constexpr void add_stream_slots(rt_device_api& t) {
  t.stream_create = [](Device* device, Stream** stream, rt_error* error) {
    return guard(error, [&] { *stream = new Stream(*device); });
  };
  t.stream_destroy = [](Stream* stream) { delete stream; };
  t.stream_synchronize = [](Stream* stream, rt_error* error) {
    return guard(error, [&] { stream->synchronize(); });
  };
  t.copy = [](Stream* stream, void* to, const void* from, uint64_t bytes, rt_error* error) {
    return guard(error, [&] {
      if (bytes > 0) stream->copy(to, from, bytes);
    });
  };
  t.fill = [](Stream* stream, void* to, int32_t value, uint64_t bytes, rt_error* error) {
    return guard(error, [&] {
      expect_byte(value);
      if (bytes > 0) stream->fill(to, value, bytes);
    });
  };
  t.event_create = [](Device* device, Event** event, rt_error* error) {
    return guard(error, [&] { *event = new Event(*device); });
  };
  t.event_destroy = [](Event* event) { delete event; };
  t.event_record = [](Event* event, Stream* stream, rt_error* error) {
    return guard(error, [&] { event->record(*stream); });
  };
  t.event_wait = [](Event* event, Stream* stream, rt_error* error) {
    return guard(error, [&] { event->wait(*stream); });
  };
  t.event_synchronize = [](Event* event, rt_error* error) {
    return guard(error, [&] { event->synchronize(); });
  };
  t.event_query = [](Event* event, rt_error* error) {
    return guard(error, [&]() -> rt_status {
      if (!event->is_complete()) return RT_NOT_READY;
      event->synchronize();  // for the error of its work
      return RT_OK;
    });
  };
  t.event_elapsed = [](Event* begin, Event* end, int64_t* nanoseconds, rt_error* error) {
    return guard(error, [&] { *nanoseconds = begin->elapsed_until(*end); });
  };
}

// Makes the table of a plugin whose instance is a PluginInstance<State> (rt/sdk/plugin.h). All
// methods may throw. The plugin defines
//   State: int32_t count(); rt_device_properties properties(int32_t index);
//     rt_device* open(int32_t index, const rt_device_options&). `index` is checked before.
//   rt_device: void* allocate(uint64_t bytes, int32_t kind), of at least one byte; void
//     release(void*, int32_t kind); rt_memory_info memory_info(); if it can tell its load,
//     rt_utilisation utilisation(), else the slot is NULL. Its destructor closes the device.
//   rt_stream(rt_device&): synchronize(); copy(void* to, const void* from, uint64_t bytes);
//     fill(void* to, int32_t value, uint64_t bytes), both of at least one byte. Its destructor
//     waits for its work.
//   rt_event(rt_device&): record(rt_stream&); wait(rt_stream&); synchronize(), which throws the
//     error of the work; bool is_complete(); int64_t elapsed_until(rt_event& end), in nanoseconds.
//     RecordedEvent and InlineEvent (rt/sdk/inline_event.h) are such classes.
template <typename State, typename Device = rt_device, typename Stream = rt_stream,
          typename Event = rt_event>
constexpr rt_device_api device_table() {
  rt_device_api t{};
  t.size = sizeof(t);
  t.version = RT_DEVICE_API_VERSION;
  t.count = [](void* self, int32_t* count, rt_error* error) {
    return guard(error, [&] { *count = state_of<State>(self).count(); });
  };
  t.properties = [](void* self, int32_t index, rt_device_properties* result, rt_error* error) {
    return guard(error, [&] {
      expect_device(index, state_of<State>(self).count());
      write_output(result, state_of<State>(self).properties(index));
    });
  };
  t.open = [](void* self, int32_t index, const rt_device_options* options, Device** device,
              rt_error* error) {
    return guard(error, [&] {
      check_input(options);
      expect_device(index, state_of<State>(self).count());
      *device = state_of<State>(self).open(index, *options);
    });
  };
  t.close = [](Device* device) { delete device; };
  t.allocate = [](Device* device, uint64_t bytes, int32_t kind, void** address, rt_error* error) {
    return guard(error, [&] {
      expect_allocation(bytes, kind);
      *address = device->allocate(bytes, kind);
    });
  };
  t.free = [](Device* device, void* address, int32_t kind) { device->release(address, kind); };
  t.memory_info = [](Device* device, rt_memory_info* info, rt_error* error) {
    return guard(error, [&] { write_output(info, device->memory_info()); });
  };
  if constexpr (requires(Device & device) { device.utilisation(); }) {
    t.utilisation = [](Device* device, rt_utilisation* result, rt_error* error) {
      return guard(error, [&] { write_output(result, device->utilisation()); });
    };
  }
  add_stream_slots<Device, Stream, Event>(t);
  return t;
}

}  // namespace rt::sdk

#endif  // RT_SDK_DEVICE_TABLE_H_
