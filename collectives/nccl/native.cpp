// Asks the device plugin's table for stream and device handles, or reads them from older plugins.
#include "native.h"

#include <string_view>

#include "rt/gpu.h"

namespace collectives::nccl {
namespace {

using rt::sdk::Error;
using rt::sdk::format;

// Calls a function of the table; throws with the device plugin's own message.
template <typename Object>
rt_native_handle ask(rt_status (*function)(Object*, rt_native_handle*, rt_error*), Object* object,
                     const char* what) {
  rt_native_handle handle{};
  handle.size = sizeof(handle);
  rt_error error{};
  error.size = sizeof(error);
  const rt_status status = function(object, &handle, &error);
  if (status == RT_OK) return handle;
  throw Error(status, format("%s asks the plugin of the device for its %s: %s", kName, what,
                             error.message));
}

int32_t device_of(const rt_comm_options& o) {
  if (o.device == nullptr) {
    throw Error(RT_ERROR_UNSUPPORTED, format("%s reads memory of %s devices only; choose another "
                                             "communicator for host memory, such as gloo",
                                             kName, kDevicePlugin));
  }
  if (o.native == nullptr) return reinterpret_cast<const rt_gpu_device*>(o.device)->index;
  const rt_native_handle handle = ask(o.native->device, o.device, "device");
  const std::string_view kind(handle.kind, strnlen(handle.kind, sizeof(handle.kind)));
  if (kind == kNativeKind) return handle.index;
  throw Error(
      RT_ERROR_UNSUPPORTED,
      format("%s: the device has handles of kind \"%.31s\"; expected \"%s\": choose another "
             "communicator, or a device of the plugin %s",
             kName, handle.kind, kNativeKind, kDevicePlugin));
}

}  // namespace

Native::Native(const rt_comm_options& options)
    : api_(options.native), device_(device_of(options)) {}

GPU(Stream_t) Native::stream(rt_stream* stream) const {
  if (api_ == nullptr)
    return static_cast<GPU(Stream_t)>(reinterpret_cast<const rt_gpu_stream*>(stream)->native);
  const rt_native_handle handle = ask(api_->stream, stream, "stream");
  if (handle.index == device_) return static_cast<GPU(Stream_t)>(handle.handle);
  throw Error(RT_ERROR_INVALID_ARGUMENT,
              format("%s: the stream is of device %d; expected the communicator's device, %d",
                     kName, handle.index, device_));
}

}  // namespace collectives::nccl
