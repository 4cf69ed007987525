// What a plan does around the vendor's call, in kernels of our own.
#ifndef BACKENDS_CUDA_PASSES_H_
#define BACKENDS_CUDA_PASSES_H_

#include <functional>

#include "backends/gpu/plan.h"

namespace backends::cuda {

using Pass = std::function<void(const gpu::Launch&)>;

// Applies the post-operations from `first` on to output 0, in place; null if there are none.
Pass post_pass(const gpu::Operation& op, uint32_t first);

// Output 1 [columns] = the sums of the columns of input 1 [rows, columns]: the bias gradient of
// conv2d_backward_weights. Uses the workspace.
Pass bias_gradient_pass(const gpu::Operation& op, uint64_t* workspace_bytes);

}  // namespace backends::cuda

#endif  // BACKENDS_CUDA_PASSES_H_
