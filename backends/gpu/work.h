// What the kernels of a plan cost, for Kernel::work.
#ifndef BACKENDS_GPU_WORK_H_
#define BACKENDS_GPU_WORK_H_

#include "backends/gpu/plan.h"

namespace backends::gpu {

// The size of an operand in device memory.
inline double bytes_of(const rt_tensor_desc& t) {
  return static_cast<double>(rt::sdk::element_count(t)) *
         static_cast<double>(rt::sdk::dtype_bytes(t.dtype));
}
// Kernel::work of an operation that queues one kernel, which reads and writes every operand once,
// or that queues nothing if `count` is 0.
inline std::vector<Work> work_unless_empty(const Operation& op, int64_t count) {
  if (count > 0) return {};
  return {Work{op.desc().name}};  // without bytes, so no kernel
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_WORK_H_
