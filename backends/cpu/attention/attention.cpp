// Divides the attention of a batch into heads and chunks of rows, and runs the vector kernels on
// each.
#include "backends/cpu/attention/attention.h"

#include <cmath>

#include "backends/cpu/parallel.h"

namespace backends::cpu::attention {

extern const KernelTable kGenericKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx512Kernels, kAvx2Kernels;
#endif

const KernelTable& kernels_for([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kAvx512Kernels;
  if (isa == Isa::kAvx2) return kAvx2Kernels;
#endif
  return kGenericKernels;
}

uint64_t Attention::saved_bytes() const {
  return static_cast<uint64_t>(2 * shape_.samples * shape_.heads * shape_.length) * sizeof(float);
}

uint64_t Attention::forward_workspace_bytes() const {
  return static_cast<uint64_t>(threads_ * forward_workspace(shape_.width)) * sizeof(float);
}

uint64_t Attention::backward_workspace_bytes() const {
  return static_cast<uint64_t>(threads_ * backward_workspace(shape_.length, shape_.width)) *
         sizeof(float);
}

// The rows of head `index % heads` of sample `index / heads` in y.
template <typename T>
Rows<T> Attention::features_of(T* y, int64_t index) const {
  const int64_t step = shape_.heads * shape_.width;
  const int64_t sample = index / shape_.heads, head = index % shape_.heads;
  return {y + sample * shape_.length * step + head * shape_.width, step};
}

// The same rows of one operand inside qkv; `part` is 0 for q, 1 for k and 2 for v.
template <typename T>
Rows<T> Attention::part_of(T* qkv, int64_t index, int64_t part) const {
  const int64_t features = shape_.heads * shape_.width, step = 3 * features;
  const int64_t sample = index / shape_.heads, head = index % shape_.heads;
  return {qkv + sample * shape_.length * step + part * features + head * shape_.width, step};
}

Head Attention::head(const float* qkv, float* saved, int64_t index) const {
  float* largest = saved + 2 * index * shape_.length;
  return {part_of(qkv, index, 0),
          part_of(qkv, index, 1),
          part_of(qkv, index, 2),
          shape_.length,
          shape_.width,
          shape_.causal,
          1.0f / std::sqrt(static_cast<float>(shape_.width)),
          largest,
          largest + shape_.length,
          nullptr};
}

// The least number of work items, of `products` multiply-adds each, for which a parallel region
// pays.
int64_t Attention::grain(double products) const {
  return static_cast<int64_t>(kElementGrain * 8 / (products + 1)) + 1;
}

void Attention::forward(const float* qkv, float* y, float* saved, float* workspace) const {
  const int64_t blocks = (shape_.length + kBlock - 1) / kBlock;
  const int64_t heads = shape_.samples * shape_.heads;
  const auto work = static_cast<double>(2 * kBlock * shape_.length * shape_.width);
  parallel_parts(threads_, heads * blocks, grain(work), 1, [&](int part, int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      Head h = head(qkv, saved, i / blocks);
      h.workspace = workspace + part * forward_workspace(shape_.width);
      kernels_->forward(h, features_of(y, i / blocks), i % blocks * kBlock);
    }
  });
}

void Attention::backward(const float* dy, const float* qkv, const float* y, const float* saved,
                         float* dqkv, float* workspace) const {
  const auto work = static_cast<double>(5 * shape_.length * shape_.length * shape_.width);
  parallel_parts(
      threads_, shape_.samples * shape_.heads, grain(work), 1, [&](int part, int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i) {
          Head h = head(qkv, const_cast<float*>(saved), i);  // backward only reads them
          h.workspace = workspace + part * backward_workspace(shape_.length, shape_.width);
          kernels_->backward(h, {features_of(dy, i), features_of(y, i), part_of(dqkv, i, 0),
                                 part_of(dqkv, i, 1), part_of(dqkv, i, 2)});
        }
      });
}

}  // namespace backends::cpu::attention
