// attention, dot_product_attention and their gradients in 16 bits by cuDNN.
#ifndef BACKENDS_CUDA_CUDNN_ATTENTION_H_
#define BACKENDS_CUDA_CUDNN_ATTENTION_H_

#include "backends/cuda/cudnn_session.h"

namespace backends::cuda {

// The usual limit of the workspace in bytes. It is this high because the deterministic backward
// keeps intermediate products of n * heads * t^2 elements in its workspace.
inline constexpr int64_t kMostAttentionWorkspace = int64_t{4} << 30;
// The limit for one key head of one sample, which cannot be cut further: 65,536 rows take 8 GiB.
inline constexpr int64_t kMostHeadWorkspace = int64_t{10} << 30;

// Bytes of workspace.
struct WorkspaceLimits {
  int64_t usual = kMostAttentionWorkspace;
  int64_t of_one_head = kMostHeadWorkspace;
};

// Whether it is one of these operations.
bool is_attention(const gpu::Operation& op);

// Returns candidates as gpu::Vendor::kernels does. If the workspace for the whole batch is larger
// than the limit, a candidate computes it in slices of some samples, or of some key heads of one
// sample and their queries, each by a launch of its own. For types other than float16 and bfloat16
// there are no candidates, and `without` stays as it is.
std::vector<gpu::Kernel> attention_kernels(const std::shared_ptr<Session>& session,
                                           const gpu::Operation& op, size_t most,
                                           const WorkspaceLimits& limits, std::string* without);

}  // namespace backends::cuda

#endif  // BACKENDS_CUDA_CUDNN_ATTENTION_H_
