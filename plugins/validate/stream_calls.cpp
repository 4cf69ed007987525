// The checking table rt.device for streams, copies and events, whose clocks are joined here.
#include <algorithm>

#include "plugins/validate/calls.h"
#include "plugins/validate/memory.h"
#include "plugins/validate/order.h"

namespace plugins::validate {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

// Below this difference the clocks of host and device say nothing with certainty.
constexpr nanoseconds kClockError = std::chrono::milliseconds(20);

rt_status stream_create(rt_device* handle, rt_stream** stream, rt_error* error) {
  return with<DeviceObject>(handle, error, [&](DeviceObject& device) {
    expect_alive(device, "stream_create");
    rt_stream* plain = nullptr;
    require_made(device.api().stream_create(device.plain, &plain, error));
    if (plain == nullptr) return;
    const std::size_t number = device.tracker().streams++;
    auto object = std::make_unique<StreamObject>(Kind::kStream, device.instance,
                                                 device.name + " stream " + std::to_string(number));
    object->plain = plain;
    object->device = &device;
    object->number = number;
    *stream = static_cast<rt_stream*>(device.tracker().adopt(std::move(object)));
  });
}

// The host now knows that what `clock` covers has run.
void host_learns(Object& object, const Clock& clock) {
  const std::lock_guard lock(object.tracker().mutex);
  object.tracker().host.join(clock);
}

void free_scratch(StreamObject& stream) {
  if (stream.scratch == nullptr) return;
  const std::lock_guard lock(stream.device->memory_mutex);
  stream.api().free(stream.device->plain, stream.scratch, RT_MEMORY_DEVICE);
  stream.device->own_bytes -= stream.scratch_bytes;
}

void stream_destroy(rt_stream* handle) {
  released<StreamObject>(handle, [](StreamObject& stream) {
    const Turn turn(stream, "stream_destroy");
    stream.api().stream_destroy(stream.plain);
    free_scratch(stream);
    host_learns(stream, stream.clock);
    const std::lock_guard lock(stream.tracker().mutex);
    stream.tracker().bury(stream);
  });
}

// Since minor version 2 an event reports the errors of the work before it. A stream that is waited
// for after such an answer, and has got no work since, has no error of its own.
void expect_vouched(const StreamObject& stream, rt_status status) {
  const bool may_fail = stream.instance.minor < 2 || !*stream.vouched;
  if (status == RT_OK || may_fail) return require(status);
  stream.fault(Offender::kPlugin, "stream_synchronize",
               "answers with an error, status " + std::to_string(status) +
                   ", although an event behind all of the work answered RT_OK; since "
                   "minor version 2 an event reports the first error before it");
}

rt_status stream_synchronize(rt_stream* handle, rt_error* error) {
  return with<StreamObject>(handle, error, [&](StreamObject& stream) {
    const Turn turn(stream, "stream_synchronize");
    expect_no_capture(*stream.device, "stream_synchronize");
    expect_vouched(stream, stream.api().stream_synchronize(stream.plain, error));
    host_learns(stream, stream.clock);
    check_guards(*stream.device, "stream_synchronize");
  });
}

// Work on an inline device has run before its call returns.
void end_work(StreamObject& stream) {
  if (stream.device->is_inline()) host_learns(stream, stream.clock);
}

std::string where_of(const StreamObject& stream, const char* call) {
  return stream.name + ": " + call;
}

rt_status copy(rt_stream* handle, void* destination, const void* source, uint64_t bytes,
               rt_error* error) {
  return with<StreamObject>(handle, error, [&](StreamObject& stream) {
    const Turn turn(stream, "copy");
    const Range to = range_of(destination, bytes), from = range_of(source, bytes);
    const std::string where = where_of(stream, "copy");
    if (bytes > 0) {
      const std::lock_guard lock(stream.tracker().mutex);
      DeviceObject& device = *stream.device;
      if (to.overlaps(from))
        stream.fault(
            Offender::kRuntime, "copy",
            "source (" + to_string(from) + ") and destination (" + to_string(to) + ") overlap");
      const bool keeps_to = expect_any_memory(device, to, where + ": destination");
      const bool keeps_from = expect_any_memory(device, from, where + ": source");
      const Epoch epoch = begin_work(stream);
      if (keeps_from) use(stream, from, false, epoch, where + ": source");
      if (keeps_to) use(stream, to, true, epoch, where + ": destination");
    }
    require(stream.api().copy(stream.plain, destination, source, bytes, error));
    end_work(stream);
  });
}

rt_status fill(rt_stream* handle, void* destination, int32_t value, uint64_t bytes,
               rt_error* error) {
  return with<StreamObject>(handle, error, [&](StreamObject& stream) {
    const Turn turn(stream, "fill");
    const std::string where = where_of(stream, "fill");
    if (value < 0 || value > 255)
      stream.fault(Offender::kRuntime, "fill",
                   "the value is " + std::to_string(value) + ", expected 0 to 255");
    if (bytes > 0) {
      const std::lock_guard lock(stream.tracker().mutex);
      const Range to = range_of(destination, bytes);
      const bool keeps = expect_any_memory(*stream.device, to, where + ": destination");
      const Epoch epoch = begin_work(stream);
      if (keeps) use(stream, to, true, epoch, where + ": destination");
    }
    require(stream.api().fill(stream.plain, destination, value, bytes, error));
    end_work(stream);
  });
}

rt_status event_create(rt_device* handle, rt_event** event, rt_error* error) {
  return with<DeviceObject>(handle, error, [&](DeviceObject& device) {
    expect_alive(device, "event_create");
    auto object =
        std::make_unique<EventObject>(Kind::kEvent, device.instance, device.name + " event");
    object->device = &device;
    require_made(device.api().event_create(device.plain, &object->plain, error));
    if (object->plain == nullptr) return;
    *event = static_cast<rt_event*>(device.tracker().adopt(std::move(object)));
  });
}

void event_destroy(rt_event* handle) {
  released<EventObject>(handle, [](EventObject& event) {
    expect_alive(event, "event_destroy");
    event.api().event_destroy(event.plain);
    const std::lock_guard lock(event.tracker().mutex);
    event.tracker().bury(event);
  });
}

void expect_same_device(const EventObject& event, const StreamObject& stream, const char* call) {
  if (event.device == stream.device) return;
  stream.fault(Offender::kRuntime, call, "the event was made from " + event.device->name);
}

rt_status event_record(rt_event* handle, rt_stream* stream_handle, rt_error* error) {
  return with<EventObject>(handle, error, [&](EventObject& event) {
    auto& stream = as<StreamObject>(stream_handle);
    const Turn turn(stream, "event_record");
    expect_alive(event, "event_record");
    expect_same_device(event, stream, "event_record");
    {
      const std::lock_guard lock(event.tracker().mutex);
      event.epoch = begin_work(stream);
      event.clock = stream.clock;
      event.recorded = true;
      event.captured = stream.capture != nullptr;
      event.queued = steady_clock::now();
      event.seen_complete.reset();
      event.capture = stream.capture;
      event.vouches = stream.vouched;
    }
    require(event.api().event_record(event.plain, stream.plain, error));
    end_work(stream);
  });
}

rt_status event_wait(rt_event* handle, rt_stream* stream_handle, rt_error* error) {
  return with<EventObject>(handle, error, [&](EventObject& event) {
    auto& stream = as<StreamObject>(stream_handle);
    const Turn turn(stream, "event_wait");
    expect_alive(event, "event_wait");
    expect_same_device(event, stream, "event_wait");
    {
      const std::lock_guard lock(event.tracker().mutex);
      const std::shared_ptr<Capture> capture = event.capture.lock();
      stream.vouched = std::make_shared<bool>(false);  // the error of the event is its own now
      if (capture == nullptr) {
        stream.clock.join(event.clock);
      } else if (stream.capture == nullptr) {
        stream.capture = capture;  // the work of this stream is recorded from now on, too
        ++event.device->captures;
      }
    }
    require(event.api().event_wait(event.plain, stream.plain, error));
    end_work(stream);
  });
}

// The latest record of an event, and whether the host knows that it has completed.
struct Record {
  Clock clock;
  bool known = false;
};

Record record_of(const EventObject& event) {
  const std::lock_guard lock(event.tracker().mutex);
  const bool known = !event.captured && event.tracker().host.covers(event.epoch);
  return {event.clock, known};
}

void event_completed(EventObject& event, const Clock& clock) {
  host_learns(event, clock);
  const std::lock_guard lock(event.tracker().mutex);
  if (!event.seen_complete) event.seen_complete = steady_clock::now();
  if (event.vouches) *event.vouches = true;
}

rt_status event_synchronize(rt_event* handle, rt_error* error) {
  return with<EventObject>(handle, error, [&](EventObject& event) {
    expect_alive(event, "event_synchronize");
    expect_no_capture(*event.device, "event_synchronize");
    const Record record = record_of(event);
    require(event.api().event_synchronize(event.plain, error));
    event_completed(event, record.clock);
    check_guards(*event.device, "event_synchronize");
  });
}

rt_status event_query(rt_event* handle, rt_error* error) {
  bool ready = true;
  const rt_status status = with<EventObject>(handle, error, [&](EventObject& event) {
    expect_alive(event, "event_query");
    expect_no_capture(*event.device, "event_query");
    const Record record = record_of(event);
    const rt_status plain = event.api().event_query(event.plain, error);
    ready = plain == RT_OK;
    if (plain != RT_NOT_READY) require(plain);
    if (ready) return event_completed(event, record.clock);
    if (record.known)
      event.fault(Offender::kPlugin, "event_query",
                  "answers RT_NOT_READY for an event that has completed");
  });
  return status == RT_OK && !ready ? RT_NOT_READY : status;
}

// Between which times the interval lies, by the clock of the host.
void check_elapsed(const EventObject& begin, const EventObject& end, nanoseconds answer) {
  const auto fault = [&](const std::string& expected) {
    begin.fault(Offender::kPlugin, "event_elapsed",
                "answers " + std::to_string(answer.count()) + " ns, " + expected);
  };
  const nanoseconds least = end.queued - begin.seen_complete.value_or(end.queued);
  const nanoseconds most = steady_clock::now() - begin.queued;
  // Whether the first event completed before the second one is known only of one stream.
  const bool in_order = least > nanoseconds(0) || end.clock.covers(begin.epoch);
  if (in_order && answer < nanoseconds(0)) fault("a negative time");
  if (least > 2 * answer + kClockError)
    fault("but at least " + std::to_string(least.count()) + " ns have passed");
  if (answer > 2 * most + kClockError)
    fault("but at most " + std::to_string(most.count()) + " ns have passed");
}

rt_status event_elapsed(rt_event* begin_handle, rt_event* end_handle, int64_t* elapsed,
                        rt_error* error) {
  return with<EventObject>(begin_handle, error, [&](EventObject& begin) {
    auto& end = as<EventObject>(end_handle);
    expect_alive(begin, "event_elapsed");
    expect_alive(end, "event_elapsed");
    require(begin.api().event_elapsed(begin.plain, end.plain, elapsed, error));
    const std::lock_guard lock(begin.tracker().mutex);
    check_elapsed(begin, end, nanoseconds(*elapsed));
  });
}

}  // namespace

void set_stream_calls(rt_device_api& table) {
  table.stream_create = stream_create;
  table.stream_destroy = stream_destroy;
  table.stream_synchronize = stream_synchronize;
  table.copy = copy;
  table.fill = fill;
  table.event_create = event_create;
  table.event_destroy = event_destroy;
  table.event_record = event_record;
  table.event_wait = event_wait;
  table.event_synchronize = event_synchronize;
  table.event_query = event_query;
  table.event_elapsed = event_elapsed;
}

}  // namespace plugins::validate
