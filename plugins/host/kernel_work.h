// The host's copy of rt_kernel_work.
#ifndef PLUGINS_HOST_KERNEL_WORK_H_
#define PLUGINS_HOST_KERNEL_WORK_H_

#include <string>

namespace plugins::host {

// A kernel that one launch of a plan queues on the device; see rt_kernel_work.
struct KernelWork {
  std::string name;
  double bytes = 0, flops = 0;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_KERNEL_WORK_H_
