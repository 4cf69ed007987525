// The handles of CUDA or HIP behind the host's devices and streams.
#ifndef COLLECTIVES_NCCL_NATIVE_H_
#define COLLECTIVES_NCCL_NATIVE_H_

#include "api.h"
#include "rt/communicator.h"

namespace collectives::nccl {

// Asks the device's plugin for its handles through rt/native.h. A host or a device plugin of minor
// version 0 does not offer that table; handles are then what rt/gpu.h says. Any thread.
class Native {
 public:
  // Throws Error (RT_ERROR_UNSUPPORTED) without a device, or if the device is of another library
  // than this plugin.
  explicit Native(const rt_comm_options& options);

  // The index of the device for GPU(SetDevice).
  int32_t device() const { return device_; }
  // The stream behind `stream`. Throws Error (RT_ERROR_INVALID_ARGUMENT) for one of another device.
  GPU(Stream_t) stream(rt_stream* stream) const;

 private:
  const rt_native_api* api_;  // null: rt/gpu.h
  int32_t device_;
};

}  // namespace collectives::nccl

#endif  // COLLECTIVES_NCCL_NATIVE_H_
