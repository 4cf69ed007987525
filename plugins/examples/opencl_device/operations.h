// The operations that the plugin does.
#ifndef OPERATIONS_H_
#define OPERATIONS_H_

#include "plan.h"

namespace opencl_device {

// Checks the operation of a plan and adds its kernels. Throws what rt/sdk/answer.h turns into an
// answer.
void add_kernels(rt_plan& plan);

}  // namespace opencl_device

#endif  // OPERATIONS_H_
