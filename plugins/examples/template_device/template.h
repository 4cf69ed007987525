// Declarations that the three source files share.
#ifndef TEMPLATE_H_
#define TEMPLATE_H_

#include "rt/device.h"
#include "rt/kernel.h"
#include "rt/plugin.h"

namespace template_device {

extern const rt_device_api kDeviceApi;
extern const rt_kernel_api kKernelApi;

// Fills `*output`, a struct of the host, from `value`. The host may have been compiled with another
// version of the struct, so only the bytes that both versions have are copied, and `size` stays.
template <typename T>
void write_output(T* output, T value) {
  value.size = output->size;
  const std::size_t bytes = output->size < sizeof(T) ? output->size : sizeof(T);
  __builtin_memcpy(output, &value, bytes);
}

}  // namespace template_device

#endif  // TEMPLATE_H_
