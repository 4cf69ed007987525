// The interface rt.capture of the simulated accelerator: a recording is a list of tasks.
#include "backends/simulated/objects.h"

namespace backends::simulated {

using rt::sdk::guard;

namespace {

rt_status begin(rt_stream* stream, rt_error* error) {
  return guard(error, [&] { stream->begin_capture(); });
}

rt_status end(rt_stream* stream, rt_recording** recording, rt_error* error) {
  return guard(error, [&] {
    std::vector<Task> tasks = stream->end_capture();
    const auto& refused = stream->device().options().refuse_capture;
    for (const Task& task : tasks) {
      const auto* launch = std::get_if<LaunchTask>(&task);
      if (launch == nullptr || launch->planned->name() != refused) continue;
      throw rt::sdk::Error(RT_ERROR_UNSUPPORTED, refused + " cannot be recorded", RT_SCOPE_STREAM);
    }
    if (recording != nullptr) *recording = new rt_recording{std::move(tasks)};
  });
}

rt_status replay(rt_recording* recording, rt_stream* stream, rt_error* error) {
  return guard(error, [&] {
    for (const Task& task : recording->tasks) stream->submit(task);
  });
}

// Streams copy the tasks that they queue, so a recording may be destroyed at any time.
void destroy(rt_recording* recording) { delete recording; }

}  // namespace

const rt_capture_api kCaptureTable = {
    sizeof(rt_capture_api), RT_CAPTURE_API_VERSION, begin, end, replay, destroy};

}  // namespace backends::simulated
