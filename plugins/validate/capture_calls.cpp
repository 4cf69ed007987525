// The checking table rt.capture: which streams record, and that a recording is replayed with live
// buffers.
#include "plugins/validate/calls.h"
#include "plugins/validate/memory.h"
#include "plugins/validate/order.h"

namespace plugins::validate {
namespace {

const rt_capture_api& capture_of(const Object& object) { return *object.instance.plain.capture; }

rt_status begin(rt_stream* handle, rt_error* error) {
  return with<StreamObject>(handle, error, [&](StreamObject& stream) {
    const Turn turn(stream, "begin of a capture");
    if (stream.capture != nullptr)
      stream.fault(Offender::kRuntime, "begin of a capture",
                   "the work of the stream is recorded already");
    require_made(capture_of(stream).begin(stream.plain, error));
    const std::lock_guard lock(stream.tracker().mutex);
    stream.capture = std::make_shared<Capture>();
    stream.capture->thread = std::this_thread::get_id();
    ++stream.device->captures;
  });
}

// Takes all streams out of the capture. The caller holds Tracker::mutex.
void leave(DeviceObject& device, const std::shared_ptr<Capture>& capture) {
  for (const auto& [handle, object] : device.tracker().objects) {
    if (object->kind != Kind::kStream) continue;
    auto& stream = static_cast<StreamObject&>(*object);
    if (stream.capture != capture) continue;
    stream.capture = nullptr;
    --device.captures;
  }
}

rt_status end(rt_stream* handle, rt_recording** result, rt_error* error) {
  return with<StreamObject>(handle, error, [&](StreamObject& stream) {
    const Turn turn(stream, "end of a capture");
    const std::shared_ptr<Capture> capture = stream.capture;
    if (capture == nullptr)
      stream.fault(Offender::kRuntime, "end of a capture", "nothing is recorded on the stream");
    auto object = std::make_unique<RecordingObject>(Kind::kRecording, stream.instance,
                                                    stream.device->name + " recording");
    object->device = stream.device;
    {
      const std::lock_guard lock(stream.tracker().mutex);
      leave(*stream.device, capture);
    }
    require_made(
        capture_of(stream).end(stream.plain, result == nullptr ? nullptr : &object->plain, error));
    if (object->plain == nullptr) return;
    object->accesses = std::move(capture->accesses);
    *result = static_cast<rt_recording*>(stream.tracker().adopt(std::move(object)));
  });
}

void expect_replayable(const RecordingObject& recording, const StreamObject& stream) {
  expect_alive(recording, "replay");
  const std::lock_guard lock(stream.tracker().mutex);  // other threads wait and so change `host`
  if (recording.device != stream.device)
    stream.fault(Offender::kRuntime, "replay",
                 "the recording was made on " + recording.device->name);
  if (recording.last.stream != stream.number && !stream.clock.covers(recording.last) &&
      !stream.tracker().host.covers(recording.last))
    stream.fault(Offender::kRuntime, "replay",
                 "the recording may still run on stream " + std::to_string(recording.last.stream) +
                     "; it may run on only one stream at a time");
}

// Everything that was recorded is used again.
void keep(RecordingObject& recording, StreamObject& stream) {
  const std::lock_guard lock(stream.tracker().mutex);
  recording.last = begin_work(stream);
  for (const Capture::Access& access : recording.accesses) {
    const std::string where = stream.name + ": replay of: " + *access.what;
    expect_any_memory(*stream.device, access.range, where);
    use(stream, access.range, access.writes, recording.last, where);
  }
}

rt_status replay(rt_recording* handle, rt_stream* stream_handle, rt_error* error) {
  return with<RecordingObject>(handle, error, [&](RecordingObject& recording) {
    auto& stream = as<StreamObject>(stream_handle);
    const Turn turn(stream, "replay");
    expect_replayable(recording, stream);
    keep(recording, stream);
    require(capture_of(recording).replay(recording.plain, stream.plain, error));
  });
}

void destroy(rt_recording* handle) {
  released<RecordingObject>(handle, [](RecordingObject& recording) {
    expect_alive(recording, "destroy");
    capture_of(recording).destroy(recording.plain);
    const std::lock_guard lock(recording.tracker().mutex);
    recording.accesses.clear();
    recording.tracker().bury(recording);
  });
}

}  // namespace

rt_capture_api capture_calls(const rt_capture_api& plain) {
  rt_capture_api table = plain;
  table.begin = begin;
  table.end = end;
  table.replay = replay;
  table.destroy = destroy;
  return table;
}

}  // namespace plugins::validate
