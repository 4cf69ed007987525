// Clips the windows of poolings at the borders of the image, and calls the kernels for what is left
// of them.
#include "backends/cpu/batch_blocked/pooling.h"

#include <algorithm>

#include "backends/cpu/parallel.h"

namespace backends::cpu::batch_blocked {

// The positions begin..end along one dimension. `skipped` is the number of the window's elements
// before `begin`, which are padding.
struct Pooling::Span {
  int64_t begin, end, skipped;
  int64_t size() const { return end - begin; }
};

Pooling::Pooling(const PoolShape& shape, PoolKind kind, int threads, const KernelTable& kernels)
    : shape_(shape), kind_(kind), threads_(std::max(1, threads)), kernels_(&kernels) {}

bool Pooling::supports_backward(const PoolShape& shape, PoolKind kind) {
  const bool padded = shape.pad_top > 0 || shape.pad_left > 0 ||
                      (shape.p - 1) * shape.stride_h + shape.kernel_h > shape.h ||
                      (shape.q - 1) * shape.stride_w + shape.kernel_w > shape.w;
  return kind == PoolKind::kMax || shape.count_include_pad || !padded;
}

Pooling::Span Pooling::window(int64_t out, int64_t in, int64_t k, int64_t stride,
                              int64_t pad) const {
  const int64_t first = out * stride - pad;
  const int64_t begin = std::max<int64_t>(first, 0);
  return {begin, std::max(begin, std::min(first + k, in)), begin - first};
}

// The outputs whose windows contain input position `at`.
Pooling::Span Pooling::gradients(int64_t at, int64_t outs, int64_t k, int64_t stride,
                                 int64_t pad) const {
  const int64_t last = (at + pad) / stride;
  const int64_t over = at + pad - k + 1;  // no window before this one
  const int64_t begin = over <= 0 ? 0 : (over + stride - 1) / stride;
  return {begin, std::max(begin, std::min(last + 1, outs)), 0};
}

PoolWindow Pooling::max_window(int64_t block, const Span& rows, const Span& columns, int64_t p,
                               int64_t q, uint8_t* saved) const {
  const PoolShape& s = shape_;
  PoolWindow w{};
  w.rows = static_cast<int32_t>(rows.size());
  w.columns = static_cast<int32_t>(columns.size());
  w.column_step = static_cast<int32_t>(s.c * kBlock);
  w.row_step = static_cast<int32_t>(s.w * s.c * kBlock);
  w.channels = static_cast<int32_t>(s.c);
  w.saved_sample = s.p * s.q * s.c;
  w.saved = saved ? saved + block * kBlock * w.saved_sample + (p * s.q + q) * s.c : nullptr;
  w.samples = static_cast<int32_t>(std::min<int64_t>(kBlock, s.n - block * kBlock));
  w.pitch = static_cast<int32_t>(s.kernel_w);
  w.first = static_cast<int32_t>(rows.skipped * s.kernel_w + columns.skipped);
  return w;
}

void Pooling::forward_row(const float* x, float* y, uint8_t* saved, const PostOps& post,
                          int64_t block, int64_t p) const {
  const PoolShape& s = shape_;
  const Span rows = window(p, s.h, s.kernel_h, s.stride_h, s.pad_top);
  for (int64_t q = 0; q < s.q; ++q) {
    const Span columns = window(q, s.w, s.kernel_w, s.stride_w, s.pad_left);
    PoolWindow w = max_window(block, rows, columns, p, q, saved);
    w.in = x + ((block * s.h + rows.begin) * s.w + columns.begin) * s.c * kBlock;
    w.out_offset = ((block * s.p + p) * s.q + q) * s.c * kBlock;
    w.out = y + w.out_offset;
    w.post = &post;
    const int64_t divisor =
        s.count_include_pad ? s.kernel_h * s.kernel_w : rows.size() * columns.size();
    w.factor = 1.0f / static_cast<float>(std::max<int64_t>(divisor, 1));
    kind_ == PoolKind::kAverage ? kernels_->avg_pool(w) : kernels_->max_pool(w);
  }
}

void Pooling::average_backward_row(const float* dy, float* dx, const PostOps& post, int64_t block,
                                   int64_t h) const {
  const PoolShape& s = shape_;
  const Span rows = gradients(h, s.p, s.kernel_h, s.stride_h, s.pad_top);
  PoolWindow g{};
  g.rows = static_cast<int32_t>(rows.size());
  g.column_step = static_cast<int32_t>(s.c * kBlock);
  g.row_step = static_cast<int32_t>(s.q * s.c * kBlock);
  g.channels = static_cast<int32_t>(s.c);
  g.factor = 1.0f / static_cast<float>(s.kernel_h * s.kernel_w);
  g.post = &post;
  for (int64_t w = 0; w < s.w; ++w) {
    const Span columns = gradients(w, s.q, s.kernel_w, s.stride_w, s.pad_left);
    g.columns = static_cast<int32_t>(columns.size());
    g.in = dy + ((block * s.p + rows.begin) * s.q + columns.begin) * s.c * kBlock;
    g.out_offset = ((block * s.h + h) * s.w + w) * s.c * kBlock;
    g.out = dx + g.out_offset;
    kernels_->avg_pool(g);
  }
}

void Pooling::max_backward_block(const float* dy, const uint8_t* saved, float* dx,
                                 const PostOps& post, int64_t block) const {
  const PoolShape& s = shape_;
  const int64_t size = s.h * s.w * s.c * kBlock;
  std::fill(dx + block * size, dx + (block + 1) * size, 0.0f);
  for (int64_t p = 0; p < s.p; ++p) {
    const Span rows = window(p, s.h, s.kernel_h, s.stride_h, s.pad_top);
    for (int64_t q = 0; q < s.q; ++q) {
      const Span columns = window(q, s.w, s.kernel_w, s.stride_w, s.pad_left);
      PoolWindow w = max_window(block, rows, columns, p, q, const_cast<uint8_t*>(saved));
      w.in = dy + ((block * s.p + p) * s.q + q) * s.c * kBlock;
      w.out = dx + ((block * s.h + rows.begin) * s.w + columns.begin) * s.c * kBlock;
      kernels_->max_pool_backward(w);
    }
  }
  if (post.count > 0) {
    kernels_->apply_post(dx + block * size, block * size, size, static_cast<int32_t>(s.c), post);
  }
}

void Pooling::forward(const float* x, float* y, uint8_t* saved, const PostOps& post) const {
  const int64_t units = sample_blocks(shape_.n) * shape_.p;
  parallel_units(threads_, units, [&](int64_t unit) {
    forward_row(x, y, saved, post, unit / shape_.p, unit % shape_.p);
  });
}

void Pooling::backward(const float* dy, const uint8_t* saved, float* dx,
                       const PostOps& post) const {
  const bool average = kind_ == PoolKind::kAverage;
  const int64_t rows = average ? shape_.h : 1;
  const int64_t units = sample_blocks(shape_.n) * rows;
  parallel_units(threads_, units, [&](int64_t unit) {
    if (average) {
      average_backward_row(dy, dx, post, unit / rows, unit % rows);
    } else {
      max_backward_block(dy, saved, dx, post, unit);
    }
  });
}

}  // namespace backends::cpu::batch_blocked
