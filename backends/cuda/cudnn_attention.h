// attention and attention_backward in 16 bits by cuDNN.
#ifndef BACKENDS_CUDA_CUDNN_ATTENTION_H_
#define BACKENDS_CUDA_CUDNN_ATTENTION_H_

#include "backends/cuda/cudnn_session.h"

namespace backends::cuda {

// Returns candidates as gpu::Vendor::kernels does. For types other than float16 and bfloat16 there
// are none, and `without` stays as it is.
std::vector<gpu::Kernel> attention_kernels(const std::shared_ptr<Session>& session,
                                           const gpu::Operation& op, size_t most,
                                           std::string* without);

}  // namespace backends::cuda

#endif  // BACKENDS_CUDA_CUDNN_ATTENTION_H_
