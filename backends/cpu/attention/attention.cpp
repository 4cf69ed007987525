// Divides the attention of a batch into heads and chunks of rows, and runs the vector kernels on
// each.
#include "backends/cpu/attention/attention.h"

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
  return static_cast<uint64_t>(2 * shape_.rows()) * sizeof(float);
}

uint64_t Attention::forward_workspace_bytes() const {
  return static_cast<uint64_t>(threads_ * forward_workspace(shape_.width, shape_.value_width)) *
         sizeof(float);
}

uint64_t Attention::backward_workspace_bytes() const {
  return static_cast<uint64_t>(threads_ *
                               backward_workspace(shape_.keys, shape_.width, shape_.value_width)) *
         sizeof(float);
}

// The rows of head `index % heads` of sample `index / heads`: of an operand of the queries, and the
// head of keys or values that this head reads.
template <typename T>
Rows<T> Attention::query_rows(Operand<T> of, int64_t index, int64_t width) const {
  const int64_t sample = index / shape_.heads, head = index % shape_.heads;
  return {of.data + sample * shape_.queries * of.step + head * width, of.step};
}
template <typename T>
Rows<T> Attention::key_rows(Operand<T> of, int64_t index, int64_t width) const {
  const int64_t sample = index / shape_.heads, head = index % shape_.heads / shape_.group();
  return {of.data + sample * shape_.keys * of.step + head * width, of.step};
}

Dropout Attention::dropout(const Inputs& inputs, int64_t sample, int64_t head) const {
  if (shape_.probability == 0) return {};
  const rt::sdk::PhiloxKey key = shape_.key_of(*inputs.step);
  return {static_cast<float>(1 / (1 - shape_.probability)),
          shape_.threshold(),
          key[0],
          key[1],
          static_cast<uint32_t>(shape_.first_head + head),
          static_cast<uint32_t>(*inputs.base + sample)};
}

Head Attention::head(const Inputs& inputs, float* saved, int64_t index) const {
  const int64_t sample = index / shape_.heads;
  float* largest = saved + 2 * index * shape_.queries;
  Head h{};
  h.q = query_rows(inputs.q, index, shape_.width);
  h.k = key_rows(inputs.k, index, shape_.width);
  h.v = key_rows(inputs.v, index, shape_.value_width);
  h.queries = shape_.queries;
  h.keys = shape_.keys;
  h.width = shape_.width;
  h.value_width = shape_.value_width;
  h.scale = static_cast<float>(shape_.scale);
  h.mask = {shape_.causal, shape_.window, nullptr, nullptr};
  if (inputs.documents != nullptr) {
    h.mask.queries = inputs.documents + sample * shape_.documents;
    h.mask.keys = h.mask.queries + shape_.key_documents();
  }
  h.dropout = dropout(inputs, sample, index % shape_.heads);
  h.largest = largest;
  h.inverse = largest + shape_.queries;
  return h;
}

// The least number of work items, of `products` multiply-adds each, for which a parallel region
// pays.
int64_t Attention::grain(double products) const {
  return static_cast<int64_t>(kElementGrain * 8 / (products + 1)) + 1;
}

void Attention::forward(const Inputs& inputs, Operand<float> y, float* saved,
                        float* workspace) const {
  const int64_t blocks = (shape_.queries + kBlock - 1) / kBlock;
  const int64_t heads = shape_.samples * shape_.heads;
  const auto work = static_cast<double>(kBlock * shape_.keys * (shape_.width + shape_.value_width));
  parallel_parts(threads_, heads * blocks, grain(work), 1, [&](int part, int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      Head h = head(inputs, saved, i / blocks);
      h.workspace = workspace + part * forward_workspace(shape_.width, shape_.value_width);
      kernels_->forward(h, query_rows(y, i / blocks, shape_.value_width), i % blocks * kBlock);
    }
  });
}

void Attention::backward(const Inputs& inputs, const BackwardOperands& o, const float* saved,
                         float* workspace) const {
  const int64_t group = shape_.group(), width = shape_.width, value_width = shape_.value_width;
  const auto work =
      static_cast<double>(group * shape_.queries * shape_.keys * (3 * width + 2 * value_width));
  const int64_t items = shape_.samples * shape_.key_heads;
  parallel_parts(threads_, items, grain(work), 1, [&](int part, int64_t b, int64_t e) {
    for (int64_t i = b * group; i < e * group; ++i) {
      Head h = head(inputs, const_cast<float*>(saved), i);  // backward only reads them
      h.workspace = workspace + part * backward_workspace(shape_.keys, width, value_width);
      kernels_->backward(
          h, {query_rows(o.dy, i, value_width), query_rows(o.y, i, value_width),
              query_rows(o.dq, i, width), key_rows(o.dk, i, width), key_rows(o.dv, i, value_width),
              i % group == 0, i % group == group - 1});
    }
  });
}

}  // namespace backends::cpu::attention
