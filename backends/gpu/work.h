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

// Appends the kernels that column_sums (columns.h) queues to the list of a plan: `read` and
// `written` are the bytes of the operands, `workspace` is what column_workspace returned, which is
// 0 if one kernel does it.
inline void column_work(std::vector<Work>& work, double read, double written, uint64_t workspace) {
  if (written == 0) return;
  const auto partial = static_cast<double>(workspace);
  work.push_back({"sums of columns", read + (workspace == 0 ? written : partial)});
  if (workspace > 0) work.push_back({"sums of chunks", partial + written});
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_WORK_H_
