#ifndef BACKENDS_CUDA_PASSES_H_
#define BACKENDS_CUDA_PASSES_H_

#include "backends/gpu/passes.h"

namespace backends::cuda {
using gpu::bias_gradient_pass;
using gpu::Pass;
using gpu::post_pass;
}  // namespace backends::cuda

#endif  // BACKENDS_CUDA_PASSES_H_
