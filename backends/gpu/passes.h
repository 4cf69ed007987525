// What a plan does around the vendor's call, in kernels of our own.
#ifndef BACKENDS_GPU_PASSES_H_
#define BACKENDS_GPU_PASSES_H_

#include <functional>

#include "backends/gpu/plan.h"

namespace backends::gpu {

using Pass = std::function<void(const Launch&)>;

// Applies the post-operations from `first` on to output 0, in place; null if there are none.
Pass post_pass(const Operation& op, uint32_t first);

// Output 1 [columns] = the sums of the columns of input 1 [rows, columns]: the bias gradient of
// conv2d_backward_weights. Uses the workspace.
Pass bias_gradient_pass(const Operation& op, uint64_t* workspace_bytes);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_PASSES_H_
