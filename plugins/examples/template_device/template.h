// Declarations that the three source files share.
#ifndef TEMPLATE_H_
#define TEMPLATE_H_

#include "rt/device.h"
#include "rt/kernel.h"
#include "rt/plugin.h"

namespace template_device {

extern const rt_device_api kDeviceApi;
extern const rt_kernel_api kKernelApi;

}  // namespace template_device

#endif  // TEMPLATE_H_
