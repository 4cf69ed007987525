// Kernels of our own that a plan runs in addition to the vendor's call.
#ifndef BACKENDS_GPU_PASSES_H_
#define BACKENDS_GPU_PASSES_H_

#include <functional>

#include "backends/gpu/plan.h"

namespace backends::gpu {

// Queues kernels on the stream of the launch.
using Pass = std::function<void(const Launch&)>;

// A pass that applies the post-operations from number `first` on to output 0, in place; null if
// there are none.
Pass post_pass(const Operation& op, uint32_t first);

// A pass that sets output 1 [columns] to the sums of the columns of input 1 [rows, columns], which
// is the bias gradient of conv2d_backward_weights. `workspace_bytes` receives the bytes of
// workspace that it needs.
Pass bias_gradient_pass(const Operation& op, uint64_t* workspace_bytes);

// A pass that sets output 1 [columns] to the sums of the columns of input 0 [rows, columns], which
// is the second output of matmul. `workspace_bytes` as above.
Pass row_sum_pass(const Operation& op, uint64_t* workspace_bytes);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_PASSES_H_
