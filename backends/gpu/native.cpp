// The table rt.native: the vendor's handles behind devices, streams and events.
#include "rt/native.h"

#include "backends/gpu/objects.h"
#include "rt/sdk/error.h"
#include "rt/sdk/structs.h"

namespace backends::gpu {
namespace {

rt_status fill(const rt_device& device, void* handle, rt_native_handle* out, rt_error* error) {
  return rt::sdk::guard(error, [&] {
    rt_native_handle native{};
    native.index = device.gpu.index;
    rt::sdk::copy_text(native.kind, kNativeKind);
    native.handle = handle;
    rt::sdk::write_output(out, native);
  });
}

rt_status of_device(rt_device* device, rt_native_handle* out, rt_error* error) {
  return fill(*device, nullptr, out, error);
}

rt_status of_stream(rt_stream* stream, rt_native_handle* out, rt_error* error) {
  return fill(*stream->device, stream->gpu.native, out, error);
}

rt_status of_event(rt_event* event, rt_native_handle* out, rt_error* error) {
  return fill(*event->device, event->event, out, error);
}

}  // namespace

const rt_native_api kNativeApi = {sizeof(rt_native_api), RT_NATIVE_API_VERSION, of_device,
                                  of_stream, of_event};

}  // namespace backends::gpu
