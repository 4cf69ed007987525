// Checks of the vendor's handles behind devices, streams and events.
#include "rt/native.h"

#include <fmt/format.h>

#include <cstring>

#include "plugins/check/probing.h"

namespace plugins::check {

namespace {

const rt_native_api& native_api(Context& context) {
  context.device();
  const rt_native_api* const api = context.plugin()->native_api();
  if (api == nullptr) throw Skip("the plugin tells no handles (rt.native)");
  return *api;
}

using Ask = std::function<rt_status(rt_native_handle*, rt_error*)>;

// The handle; throws Skip if there is none of this kind.
rt_native_handle handle_of(const std::string& what, const Ask& ask) {
  rt_native_handle handle{};
  handle.size = sizeof(handle);
  const rt_status status = status_of(what, [&](rt_error* error) { return ask(&handle, error); });
  if (status == RT_ERROR_UNSUPPORTED) throw Skip(what + " has no handle");
  require(status == RT_OK, what + ": " + host::status_name(status) +
                               "; expected RT_OK, or RT_ERROR_UNSUPPORTED if it has none");
  require(std::memchr(handle.kind, '\0', sizeof(handle.kind)) != nullptr && handle.kind[0] != '\0',
          what + ": kind is no text; expected the name of a library, like \"cuda\"");
  return handle;
}

bool same(const rt_native_handle& a, const rt_native_handle& b) {
  return a.index == b.index && std::strcmp(a.kind, b.kind) == 0 && a.handle == b.handle &&
         a.context == b.context;
}

// Asks for the handle of an object in all ways, and returns it.
rt_native_handle tried(const std::string& what, const Ask& ask) {
  const rt_native_handle handle = handle_of(what, ask);
  require(same(handle, handle_of(what, ask)), what + ": the second answer is another handle");
  check_output<rt_native_handle>(what, RT_NATIVE_HANDLE_SIZE_V1, ask);
  return handle;
}

std::string tells_devices(Context& context) {
  const rt_native_api& api = native_api(context);
  const rt_native_handle handle = tried("the device", [&](rt_native_handle* h, rt_error* e) {
    return api.device(context.device()->get(), h, e);
  });
  return fmt::format("{} {}", handle.kind, handle.index);
}

std::string tells_streams_apart(Context& context) {
  const rt_native_api& api = native_api(context);
  const host::Stream streams[] = {context.device()->create_stream(),
                                  context.device()->create_stream()};
  rt_native_handle handles[2];
  for (size_t i = 0; i < 2; ++i) {
    handles[i] = tried("a stream", [&](rt_native_handle* h, rt_error* e) {
      return api.stream(streams[i].get(), h, e);
    });
  }
  require(handles[0].handle != handles[1].handle, "two streams have the same handle");
  return "";
}

// Only a raw call gives the event itself, because a handle of the host keeps it to itself.
struct RawEvent {
  explicit RawEvent(Context& context) : api(context.device_api()) {
    rt_error error = host::make_error();
    host::check(api.event_create(context.device()->get(), &event, &error), error, "event_create");
  }
  ~RawEvent() { api.event_destroy(event); }
  RawEvent(const RawEvent&) = delete;
  RawEvent& operator=(const RawEvent&) = delete;

  const rt_device_api& api;
  rt_event* event = nullptr;
};

std::string tells_events_apart(Context& context) {
  const rt_native_api& api = native_api(context);
  host::Stream stream = context.device()->create_stream();
  const RawEvent events[] = {RawEvent(context), RawEvent(context)};
  rt_native_handle handles[2];
  for (size_t i = 0; i < 2; ++i) {
    rt_error error = host::make_error();
    host::check(events[i].api.event_record(events[i].event, stream.get(), &error), error,
                "event_record");
    handles[i] = tried("an event", [&](rt_native_handle* h, rt_error* e) {
      return api.event(events[i].event, h, e);
    });
  }
  stream.synchronize();
  require(handles[0].handle != handles[1].handle, "two events have the same handle");
  return "";
}

}  // namespace

void add_native_checks(std::vector<Check>& checks) {
  const auto add = [&](const char* name, std::string (*body)(Context&)) {
    checks.push_back({"native", name, body});
  };
  add("handles of devices are told", tells_devices);
  add("handles of streams are told, one for each", tells_streams_apart);
  add("handles of events are told, one for each", tells_events_apart);
}

}  // namespace plugins::check
