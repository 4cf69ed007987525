// The kernels that a plan of a convolution queues, where a library convolves and passes of our own
// follow: what rt_plan_info.work tells of them.
#ifndef BACKENDS_GPU_CONVOLUTION_WORK_H_
#define BACKENDS_GPU_CONVOLUTION_WORK_H_

#include <string>
#include <vector>

#include "backends/gpu/convolution.h"
#include "backends/gpu/work.h"

namespace backends::gpu {

// The kernels of passes.h, which must be told here in the number and order in which they are
// queued.
inline Work post_pass_work(const Operation& op, uint32_t first) {
  double bytes = 2 * bytes_of(op.output(0));  // read and written
  for (uint32_t i = first; i < op.post_op_count(); ++i) {
    const int32_t operand = op.post_op(i).operand;
    if (operand >= 0) bytes += bytes_of(op.input(static_cast<uint32_t>(operand)));
  }
  return {"post-operations", bytes, 0};
}
// `workspace_bytes` are those of the pass.
inline std::vector<Work> bias_gradient_work(const Operation& op, uint64_t workspace_bytes) {
  std::vector<Work> work;
  column_work(work, bytes_of(op.input(1)), bytes_of(op.output(1)), workspace_bytes);
  return work;
}

// The library's call is told as one kernel, though some of its algorithms queue more: it reads
// image, weights, fused bias and residual, or what of these and the result is given, and writes the
// rest. A product of two numbers and its addition are two operations; what lies in the padding
// counts.
inline Work convolution_work(const Operation& op, const Convolution& c, const std::string& name) {
  Work work{name, bytes_of(op.input(0)) + bytes_of(op.input(1)) + bytes_of(op.output(0)), 0};
  if (c.bias >= 0) work.bytes += bytes_of(op.input(static_cast<uint32_t>(c.bias)));
  if (c.residual >= 0) work.bytes += bytes_of(op.input(static_cast<uint32_t>(c.residual)));
  work.flops = 2;
  for (const int64_t n : c.result.dims) work.flops *= static_cast<double>(n);
  for (const size_t i : {1, 2, 3}) work.flops *= static_cast<double>(c.weights.dims[i]);
  return work;
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_CONVOLUTION_WORK_H_
