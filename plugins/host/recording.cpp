// Captures the work that a function queues, and replays it.
#include "plugins/host/recording.h"

#include <utility>

#include "plugins/host/call.h"
#include "plugins/host/release.h"

namespace plugins::host {

namespace {

const rt_capture_api& capture_of(const Device& device) {
  if (const rt_capture_api* api = device.plugin().capture_api()) return *api;
  throw Error(RT_ERROR_UNSUPPORTED,
              device.id() + ": plugin '" + device.plugin().name() + "' cannot record work");
}

}  // namespace

Recording::Recording(Stream& stream, const std::function<void()>& work) : device_(stream.device()) {
  const rt_capture_api& api = capture_of(*device_);
  call([&] { return device_->id() + ": begin to record"; },
       [&](rt_error* e) { return api.begin(stream.get(), e); });
  try {
    work();
  } catch (...) {
    api.end(stream.get(), nullptr, nullptr);  // `work` failed first, so its exception is reported
    throw;
  }
  rt_recording* recording = nullptr;
  call([&] { return device_->id() + ": end a recording"; },
       [&](rt_error* e) { return api.end(stream.get(), &recording, e); });
  if (recording == nullptr)
    throw Error(RT_ERROR_INTERNAL, device_->id() + ": answered RT_OK without a recording");
  recording_ = {recording, {device_, "destroy a recording", api.destroy}};
  last_ = stream.place().last;
}

void Recording::replay(Stream& stream) {
  stream.launched(last_);
  const InCall waiting(*device_->calls(), stream.place());
  call([&] { return device_->id() + ": replay a recording"; },
       [&](rt_error* e) {
         return device_->plugin().capture_api()->replay(recording_.get(), stream.get(), e);
       });
}

}  // namespace plugins::host
